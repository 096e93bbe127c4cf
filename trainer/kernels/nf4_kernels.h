#pragma once

#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>

#include <optional>

#include "trainer/kernels/cuda_stream.h"
#include "trainer/kernels/float_type_of.h"
#include "trainer/kernels/launch.h"
#include "trainer/kernels/nf4_kernel.h"
#include "trainer/kernels/nf4_layout.h"

namespace fsdp {

// `Base`, a set of kernels for GPUs, with nf4_kernel.h's dequantization.
template <typename Base>
class Nf4Kernels : public Base {
 public:
  using Base::Base;

  void dequantize_nf4(const at::Tensor& bytes, const at::Tensor& out) override {
    const std::optional<FloatType> type = float_type_of(out);
    TORCH_CHECK(type && out.is_contiguous() && bytes.is_contiguous() &&
                    bytes.numel() == Nf4Layout{out.numel()}.bytes(),
                "NF4 of ", bytes.sizes(), " bytes to ", out.sizes(), " of ", out.scalar_type());
    launch("dequantize_nf4", {bytes}, {out}, [&] {
      C10_CUDA_CHECK(start_dequantize_nf4(bytes.const_data_ptr<uint8_t>(), out.numel(),
                                          out.data_ptr(), *type, stream_of(out)));
    });
  }
};

}  // namespace fsdp
