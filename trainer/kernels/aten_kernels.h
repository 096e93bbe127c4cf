#pragma once

#include "trainer/kernels/kernels.h"

namespace fsdp {

// The major numbers of compute capabilities.
inline constexpr int kAmpere = 8;
inline constexpr int kHopper = 9;

// Compositions of libtorch's operators, on any device: the reference. On a GPU, own_kernels.h has
// the rotary embedding, cross-entropy and SwiGLU, if the build had nvcc. For meta
// tensors, all allocate as on `device`, the planned kind of device.
class AtenKernels : public Kernels {
 public:
  // `capability_major` is the major number of the GPU's compute capability; on meta, of the planned
  // GPU's. It is not read on a CPU.
  explicit AtenKernels(c10::DeviceType device, int capability_major = kHopper)
      : device_(device), capability_major_(capability_major) {}

  void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                bool accumulate = false, double scale = 1.0) override;
  void multiply_gradient(GradientBuffer& gradient, const at::Tensor& a, const at::Tensor& b,
                         double scale = 1.0) override;

  void dequantize_nf4(const at::Tensor& bytes, const at::Tensor& out) override;

  RmsNorm rms_norm(const at::Tensor& x_ND, const at::Tensor& weight_D, double epsilon) override;
  at::Tensor rms_norm_again(const at::Tensor& x_ND, const at::Tensor& reciprocal_rms_N1,
                            const at::Tensor& weight_D, double epsilon) override;
  void rms_norm_backward(at::Tensor dy_ND, const at::Tensor& x_ND,
                         const at::Tensor& reciprocal_rms_N1, const at::Tensor& weight_D,
                         GradientBuffer* dweight_D, GradientBuffer& dx_ND) override;

  at::Tensor swiglu(const at::Tensor& gate_up_N2F) override;
  SwigluGradients swiglu_backward(at::Tensor dh_NF, const at::Tensor& gate_up_N2F) override;

  RotaryTable rotary_table(const at::Tensor& angles, const DocumentsPtr& documents,
                           at::ScalarType buffer_type, at::ScalarType type,
                           bool lengths_vary = false) override;
  bool has_attention(at::ScalarType dtype) const override;
  Attention attention(at::Tensor qkv_NE, const AttentionHeads& heads, const RotaryTable& table,
                      bool for_backward) override;
  at::Tensor attention_backward(const at::Tensor& dout, Attention forward,
                                const AttentionHeads& heads, const RotaryTable& table) override;

  Attention biased_attention(const BiasedAttention& call, bool for_backward) override;
  BiasedAttentionGradients biased_attention_backward(const at::Tensor& dout,
                                                     const Attention& forward,
                                                     const BiasedAttention& call) override;

  at::Tensor relu(const at::Tensor& x_NF) override;
  at::Tensor relu_backward(at::Tensor dy_NF, const at::Tensor& x_NF) override;
  at::Tensor gated_gelu(const at::Tensor& gate_up_N2F) override;
  at::Tensor gated_gelu_backward(const at::Tensor& dh_NF, const at::Tensor& gate_up_N2F) override;

  at::Tensor dropped(const at::Tensor& x, const Dropout& dropout) override;

  at::Tensor embedding(const at::Tensor& weight_VD, const at::Tensor& token_ids_N) override;
  void embedding_backward(const at::Tensor& dy_ND, const at::Tensor& token_ids_N,
                          GradientBuffer& dweight_VD) override;

  int64_t chunk_tokens_max(int64_t logits_bytes_per_token) const override;
  void cross_entropy(at::Tensor logits_CV, const at::Tensor& labels_C1,
                     at::Tensor loss_C1) override;
  at::Tensor evaluate_cross_entropy(at::Tensor logits_CV, const at::Tensor& labels_C1,
                                    at::Tensor loss_C1) override;

  // Returns the width to which heads are padded for attention.
  virtual int64_t padded_width(int64_t width, at::ScalarType dtype) const;

 protected:
  int capability_major() const { return capability_major_; }

 private:
  bool has_own_kernels(const at::Tensor& like) const;

  c10::DeviceType device_;
  int capability_major_;
};

}  // namespace fsdp
