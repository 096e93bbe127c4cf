#pragma once

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>

#include <optional>
#include <utility>

#include "trainer/kernels/cuda_stream.h"
#include "trainer/kernels/float_type_of.h"
#include "trainer/kernels/launch.h"
#include "trainer/kernels/swiglu.h"

namespace fsdp {

// `Base`, a set of kernels for GPUs, with swiglu.h's gradient of SwiGLU for 16 and 32 bits; h takes
// dh's memory. Base handles fp64.
template <typename Base>
class SwigluKernels : public Base {
 public:
  using Base::Base;

  Kernels::SwigluGradients swiglu_backward(at::Tensor dh_NF,
                                           const at::Tensor& gate_up_N2F) override {
    const std::optional<FloatType> type = float_type_of(dh_NF);
    if (!type) return Base::swiglu_backward(std::move(dh_NF), gate_up_N2F);
    TORCH_CHECK(dh_NF.is_contiguous() && gate_up_N2F.is_contiguous(),
                "dh, gate and up should be contiguous");
    TORCH_CHECK(gate_up_N2F.size(0) == dh_NF.size(0) && gate_up_N2F.size(1) == 2 * dh_NF.size(1) &&
                    gate_up_N2F.scalar_type() == dh_NF.scalar_type(),
                "gate and up of ", gate_up_N2F.sizes(), " for dh of ", dh_NF.sizes());
    const at::Tensor d_gate_up_N2F = at::empty_like(gate_up_N2F);
    launch("swiglu_backward", {dh_NF, gate_up_N2F}, {dh_NF, d_gate_up_N2F}, [&] {
      C10_CUDA_CHECK(start_swiglu_backward(dh_NF.data_ptr(), gate_up_N2F.const_data_ptr(),
                                           d_gate_up_N2F.mutable_data_ptr(), *type, dh_NF.size(0),
                                           dh_NF.size(1), stream_of(dh_NF)));
    });
    return {std::move(dh_NF), d_gate_up_N2F};
  }
};

}  // namespace fsdp
