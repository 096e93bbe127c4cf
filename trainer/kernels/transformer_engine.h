#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/kernels/kernels.h"

// The C functions of NVIDIA's Transformer Engine (2.12) that the trainer calls, on tensors.
//
// Every function writes into its caller's tensors, allocates its own workspace, and starts its
// kernels on the current stream without waiting. All tensors of a call are contiguous (checked) and
// on one device. If noted, they have at most 2^31 - 1 elements. On meta only the workspace is
// allocated: Transformer Engine is not called. Its errors become c10::Error with its text.
//
// Shape suffixes are as in kernels.h, and B sequences, T tokens of a sequence, H query heads, K
// key-value heads, W width of a head.
namespace fsdp::te {

// --- RMSNorm; x, y and weight of one type: fp32, fp16, bf16; under 2^31 elements ---

// Computes y and 1 / root mean square (fp32).
void rms_norm(const at::Tensor& x_ND, const at::Tensor& weight_D, double epsilon,
              const at::Tensor& y_ND, const at::Tensor& reciprocal_rms_N);

// Sets dx to the gradient of x, plus residual_ND if that is defined; overwrites dweight. dx may be
// the memory of dy or of the residual.
void rms_norm_backward(const at::Tensor& dy_ND, const at::Tensor& x_ND,
                       const at::Tensor& reciprocal_rms_N, const at::Tensor& weight_D,
                       const at::Tensor& residual_ND, const at::Tensor& dx_ND,
                       const at::Tensor& dweight_D);

// --- SwiGLU; fp32, fp16, bf16 ---

// Computes h = silu(first half of the columns) * second half.
void swiglu(const at::Tensor& gate_up_N2F, const at::Tensor& h_NF);
void swiglu_backward(const at::Tensor& dh_NF, const at::Tensor& gate_up_N2F,
                     const at::Tensor& d_gate_up_N2F);

// --- rotary embedding; fp16, bf16; under 2^31 elements ---

// Splits the packed product into values, and queries and keys rotated by angles_TW. The angles are
// fp32; the second half of their columns repeats the first.
void split_and_rotate(const at::Tensor& qkv_NE, const at::Tensor& angles_TW,
                      const at::Tensor& q_BTHW, const at::Tensor& k_BTKW, const at::Tensor& v_BTKW);
// Computes the gradient of split_and_rotate.
void join_and_rotate_back(const at::Tensor& dq_BTHW, const at::Tensor& dk_BTKW,
                          const at::Tensor& dv_BTKW, const at::Tensor& angles_TW,
                          const at::Tensor& dqkv_NE);

// --- causal attention by cuDNN's flash kernels (Dao 2023), scaled by 1 / sqrt(W) ---

// `documents` is null, or the documents of the one sequence that holds all tokens (B is 1).
// Attention then stays within each. `window` is the most tokens that a query then sees: itself and
// those before it; 0: all.

// True if there are kernels, forward and backward, for such tensors on `device`. On meta, the
// capability decides: Ampere or later, with documents Hopper or later.
bool has_causal_attention(at::ScalarType type, int64_t sequence_length, int64_t width,
                          const Documents* documents, const at::Device& device,
                          int capability_major);

// Returns the shape of the log-sum-exp of each query (fp32): [B, H, T, 1] or, with documents,
// [T, H, 1]. causal_attention writes it even without a backward.
std::vector<int64_t> log_sum_exp_shape(at::IntArrayRef query_BTHW, const Documents* documents);

void causal_attention(const at::Tensor& q_BTHW, const at::Tensor& k_BTKW, const at::Tensor& v_BTKW,
                      const at::Tensor& out_BTHW, const at::Tensor& log_sum_exp,
                      const Documents* documents, int64_t window, bool for_backward);
// Sums in a fixed order if PyTorch's deterministic algorithms are on.
void causal_attention_backward(const at::Tensor& dout_BTHW, const at::Tensor& out_BTHW,
                               const at::Tensor& q_BTHW, const at::Tensor& k_BTKW,
                               const at::Tensor& v_BTKW, const at::Tensor& log_sum_exp,
                               const at::Tensor& dq_BTHW, const at::Tensor& dk_BTKW,
                               const at::Tensor& dv_BTKW, const Documents* documents,
                               int64_t window);

}  // namespace fsdp::te
