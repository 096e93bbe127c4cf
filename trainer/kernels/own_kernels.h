#pragma once

#include <ATen/core/Tensor.h>

// Our own kernels for GPUs, one launch each. They take fp32, fp16 and bf16, and compute in fp32. On
// meta they launch nothing. Tensors are contiguous unless stated.
//
// Shape suffixes: N tokens of all sequences, F intermediate_size, C tokens of one chunk, V
// vocabulary; B sequences, T tokens of a sequence, H heads, W head width.
namespace fsdp::own {

bool has_kernels(const at::Tensor& like);

// Sets h to silu(gate) * up.
void swiglu(const at::Tensor& gate_up_N2F, const at::Tensor& h_NF);
// See start_swiglu_backward() in swiglu.h: dh becomes h.
void swiglu_backward(const at::Tensor& dh_NF, const at::Tensor& gate_up_N2F,
                     const at::Tensor& d_gate_up_N2F);

// See cross_entropy.h. The losses are fp32.
void cross_entropy(const at::Tensor& logits_CV, const at::Tensor& labels_C1,
                   const at::Tensor& loss_C1);
void evaluate_cross_entropy(const at::Tensor& logits_CV, const at::Tensor& labels_C1,
                            const at::Tensor& loss_C1, const at::Tensor& tokens_C1);

// Rotates queries and keys of packed [B, T, heads, W] in place (see Rotation in rotary.h).
void rotate(const at::Tensor& packed_BTHW, int64_t query_heads, const at::Tensor& cosine,
            const at::Tensor& sine);
// Writes queries and keys, rotated back, and values to `packed`. They may have any strides, except
// that the elements of a head are contiguous.
void rotate_back(const at::Tensor& packed_BTHW, const at::Tensor& query_BTHW,
                 const at::Tensor& key_BTHW, const at::Tensor& value_BTHW, const at::Tensor& cosine,
                 const at::Tensor& sine);

}  // namespace fsdp::own
