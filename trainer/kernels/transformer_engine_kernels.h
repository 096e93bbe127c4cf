#pragma once

#include "trainer/kernels/aten_kernels.h"

// The kernels of NVIDIA's Transformer Engine, on a GPU and on meta for one.
//
// AtenKernels (the ATen set) computes what this class does not override. It also computes:
// - cross-entropy, and, if the build had nvcc, the gradient of SwiGLU;
// - fp64, and RMSNorm with a weight of another type than the activations;
// - attention in fp32, and with heads that are wider than 128 or no multiple of 8;
// - attention with sequences of varying lengths, and with a rotary table rounded to 16 bits;
// - attention on GPUs before Ampere, and within documents on GPUs before Hopper.
// Throws c10::Error with Transformer Engine's text.
namespace fsdp {

class TransformerEngineKernels : public AtenKernels {
 public:
  explicit TransformerEngineKernels(int capability_major = kHopper)
      : AtenKernels(c10::kCUDA, capability_major) {}

  RmsNorm rms_norm(const at::Tensor& x_ND, const at::Tensor& weight_D, double epsilon) override;
  at::Tensor rms_norm_again(const at::Tensor& x_ND, const at::Tensor& reciprocal_rms_N1,
                            const at::Tensor& weight_D, double epsilon) override;
  // The weight's gradient is rounded to the weight's type before it is added. The gradient of x
  // takes dy's memory if it has none.
  void rms_norm_backward(at::Tensor dy_ND, const at::Tensor& x_ND,
                         const at::Tensor& reciprocal_rms_N1, const at::Tensor& weight_D,
                         GradientBuffer* dweight_D, GradientBuffer& dx_ND) override;

  at::Tensor swiglu(const at::Tensor& gate_up_N2F) override;
  // h takes dh's memory.
  SwigluGradients swiglu_backward(at::Tensor dh_NF, const at::Tensor& gate_up_N2F) override;

  // Returns the angles of whole heads [T, width], with documents [N, width], in fp32. Sines,
  // cosines and rotations are then computed in fp32. Returns the ATen set's table if the ATen set
  // computes `attention`.
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
