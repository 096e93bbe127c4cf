#pragma once

#include "trainer/kernels/aten_kernels.h"

// The kernels of NVIDIA's Transformer Engine on a GPU, and on meta for one.
//
// What it has none for is left to the ATen set: fp64; a weight of another type than the
// activations; attention in fp32, with heads that are wider than 128 or no multiple of 8, or on
// GPUs before Ampere, within documents before Hopper. Throws c10::Error with Transformer Engine's
// text.
namespace fsdp {

class TransformerEngineKernels : public AtenKernels {
 public:
  explicit TransformerEngineKernels(int capability_major = kHopper)
      : AtenKernels(c10::kCUDA, capability_major) {}

  RmsNorm rms_norm(const at::Tensor& x_ND, const at::Tensor& weight_D, double epsilon) override;
  at::Tensor rms_norm_again(const at::Tensor& x_ND, const at::Tensor& reciprocal_rms_N1,
                            const at::Tensor& weight_D, double epsilon) override;
  // The weight's gradient is rounded to the weight's type before it is added. That of x takes dy's
  // memory where it has none.
  void rms_norm_backward(at::Tensor dy_ND, const at::Tensor& x_ND,
                         const at::Tensor& reciprocal_rms_N1, const at::Tensor& weight_D,
                         GradientBuffer& dweight_D, GradientBuffer& dx_ND) override;

  at::Tensor swiglu(const at::Tensor& gate_up_N2F) override;
  // h takes dh's memory.
  SwigluGradients swiglu_backward(at::Tensor dh_NF, const at::Tensor& gate_up_N2F) override;

  // The angles of whole heads [T, width], with documents [N, width], fp32: sine and cosine are
  // taken, and rotated with, in fp32. The ATen set's table where `attention` is left to it, and
  // where a table is to be rounded to another buffer_type than fp32.
  RotaryTable rotary_table(const at::Tensor& angles, const DocumentsPtr& documents,
                           at::ScalarType buffer_type, at::ScalarType type,
                           bool lengths_vary = false) override;
  // Saves the rotated queries and keys, the values, and the log-sum-exp of each query.
  Attention attention(at::Tensor qkv_NE, const AttentionHeads& heads, const RotaryTable& table,
                      bool for_backward) override;
  at::Tensor attention_backward(const at::Tensor& dout, Attention forward,
                                const AttentionHeads& heads, const RotaryTable& table) override;
};

}  // namespace fsdp
