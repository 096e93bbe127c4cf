#pragma once

#include "trainer/model/model.h"
#include "trainer/model/rotary.h"

// The layers of a transformer as functions of activations. Each is one autograd node; what it saves
// for backward is stated here, because the memory of a step follows from it.
//
// All of them read Parameter::value when they run and write the weight's gradient into
// Parameter::gradient in backward (overwriting it when gradient_written is false, else adding).
// Type and device follow from the arguments. Without gradients nothing is saved. They run on CPU,
// CUDA and meta; on meta they allocate what the real device would.
//
// Shape suffixes: N tokens of all sequences (B * T), D hidden_size, F intermediate_size,
// E the packed heads ((query heads + 2 * key/value heads) * head width), O any output width.
namespace fsdp {

// weight[token_ids]: [N, D] of weight [vocabulary, D]. `anchor` is what autograd sees as the input:
// a tensor without elements that requires a gradient when training. Saves the token ids.
at::Tensor embedding(const at::Tensor& anchor, const at::Tensor& token_ids_N,
                     const ParameterPtr& weight);

// residual + x weight^T. Saves x.
at::Tensor residual_linear(const at::Tensor& residual_NO, const at::Tensor& x_ND,
                           const ParameterPtr& weight_OD);

// x / root mean square(x) * weight, the mean square in fp32 for bf16. Saves x and one number a
// token.
at::Tensor rms_norm(const at::Tensor& x_ND, const ParameterPtr& weight_D, double epsilon);

// rms_norm(x) weight^T. Saves what rms_norm saves: the normalised x is computed again in backward.
at::Tensor rms_norm_linear(const at::Tensor& x_ND, const ParameterPtr& norm_weight_D,
                           double epsilon, const ParameterPtr& weight_OD);

// The heads packed in the last dimension of a query-key-value product, in this order.
struct AttentionHeads {
  int64_t query = 1;
  int64_t key_value = 1;  // divides query: each serves query / key_value query heads
  int64_t width = 1;      // of one head
};

// Causal attention after the rotary embedding of queries and keys, scaled by 1 / sqrt(width).
// qkv_NE is consumed: queries and keys are rotated in place. Returns [N, query * width].
// Saves qkv, the output and the log-sum-exp of each query.
at::Tensor causal_attention(const at::Tensor& qkv_NE, int64_t sequence_length,
                            const AttentionHeads& heads, RotaryEmbedding& rotary);

// residual + (silu(gate) * up) weight^T, gate and up being the halves of gate_up's columns. Saves
// gate_up: the product is computed again in backward.
at::Tensor residual_swiglu_linear(const at::Tensor& residual_ND, const at::Tensor& gate_up_N2F,
                                  const ParameterPtr& weight_DF);

}  // namespace fsdp
