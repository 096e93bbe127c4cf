#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/kernels/kernels.h"

// The C functions of NVIDIA's Transformer Engine (2.12) that the trainer calls, on tensors.
//
// Every function writes into tensors that its caller allocated, allocates the workspace that it
// needs, and starts its kernels on the current stream; nothing waits. All tensors of a call are
// contiguous (refused otherwise), on one device, and not of more than 2^31 - 1 elements where it
// says so. On meta only the workspace is allocated: Transformer Engine is not called. Its errors
// are c10::Error with its text.
//
// Shape suffixes: those of kernels.h, and B sequences, T tokens of one, H query heads, K key-value
// heads, W width of a head.
namespace fsdp::te {

// --- RMSNorm; x, y and weight of one type: fp32, fp16, bf16; under 2^31 elements ---

// y and 1 / root mean square (fp32).
void rms_norm(const at::Tensor& x_ND, const at::Tensor& weight_D, double epsilon,
              const at::Tensor& y_ND, const at::Tensor& reciprocal_rms_N);

// dx = gradient of x, plus residual_ND where that is defined; dweight is overwritten. dx may be the
// memory of dy or of the residual.
void rms_norm_backward(const at::Tensor& dy_ND, const at::Tensor& x_ND,
                       const at::Tensor& reciprocal_rms_N, const at::Tensor& weight_D,
                       const at::Tensor& residual_ND, const at::Tensor& dx_ND,
                       const at::Tensor& dweight_D);

// --- SwiGLU; fp32, fp16, bf16 ---

// h = silu(first half of the columns) * second half.
void swiglu(const at::Tensor& gate_up_N2F, const at::Tensor& h_NF);
void swiglu_backward(const at::Tensor& dh_NF, const at::Tensor& gate_up_N2F,
                     const at::Tensor& d_gate_up_N2F);

// --- rotary embedding; fp16, bf16; under 2^31 elements ---

// The packed product's queries and keys rotated by angles_TW (fp32; the second half of the columns
// repeats the first), and its values.
void split_and_rotate(const at::Tensor& qkv_NE, const at::Tensor& angles_TW,
                      const at::Tensor& q_BTHW, const at::Tensor& k_BTKW, const at::Tensor& v_BTKW);
// Its gradient.
void join_and_rotate_back(const at::Tensor& dq_BTHW, const at::Tensor& dk_BTKW,
                          const at::Tensor& dv_BTKW, const at::Tensor& angles_TW,
                          const at::Tensor& dqkv_NE);

// --- causal attention by cuDNN's flash kernels (Dao 2023), scaled by 1 / sqrt(W) ---

// `documents`: null, or those of the one sequence that then is all tokens (B is 1), each of which
// attention stays within. `window`: how many tokens a query then sees at most, itself and those
// before it; 0: all.

// True if there are kernels, forward and backward, for such tensors on that device. On meta: for
// GPUs of that capability. GPUs since Ampere have the same answer, with documents GPUs since
// Hopper.
bool has_causal_attention(at::ScalarType type, int64_t sequence_length, int64_t width,
                          const Documents* documents, const at::Device& device,
                          int capability_major);

// The shape of the log-sum-exp of each query (fp32), which is written also when there is no
// backward: [B, H, T, 1], with documents [T, H, 1].
std::vector<int64_t> log_sum_exp_shape(at::IntArrayRef query_BTHW, const Documents* documents);

void causal_attention(const at::Tensor& q_BTHW, const at::Tensor& k_BTKW, const at::Tensor& v_BTKW,
                      const at::Tensor& out_BTHW, const at::Tensor& log_sum_exp,
                      const Documents* documents, int64_t window, bool for_backward);
// Sums in a fixed order when PyTorch's deterministic algorithms are asked for.
void causal_attention_backward(const at::Tensor& dout_BTHW, const at::Tensor& out_BTHW,
                               const at::Tensor& q_BTHW, const at::Tensor& k_BTKW,
                               const at::Tensor& v_BTKW, const at::Tensor& log_sum_exp,
                               const at::Tensor& dq_BTHW, const at::Tensor& dk_BTKW,
                               const at::Tensor& dv_BTKW, const Documents* documents,
                               int64_t window);

}  // namespace fsdp::te
