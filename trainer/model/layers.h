#pragma once

#include "trainer/model/model.h"
#include "trainer/model/rotary.h"

// The layers of a transformer as functions of activations. Each comment states what the layer saves
// for its backward, because a step's memory depends on it. Without gradients, layers save nothing.
//
// A layer has no backward if neither its inputs nor its parameters need gradients. Its output then
// has no gradient either. Nothing is saved, or computed in backward, for the gradient of a frozen
// parameter.
//
// An adapter saves A x, and the x that it reads. Products dequantize a quantized weight each time,
// in memory that they free.
//
// Type and device follow from the arguments. All layers run on CPU, CUDA and meta. On meta they
// allocate what the planned device would.
//
// To add a layer: list its saved tensors here, and test it in tests/trainer/model/layers_test.cpp.
//
// Shape suffixes: N tokens of all sequences (B * T), D hidden_size, F intermediate_size, E the
// packed heads ((query heads + 2 * key/value heads) * head width), W head width, O any output
// width.
namespace fsdp {

// Returns weight[token_ids]: [N, D] of weight [vocabulary, D]. Saves the token ids. The row of
// `padding_idx` gets no gradient, as in torch.nn.Embedding.
Activation embedding(Pass& pass, const at::Tensor& token_ids_N, const ParameterPtr& weight,
                     std::optional<int64_t> padding_idx = std::nullopt);

// Returns residual + linear(x). Saves x. The residual's gradient is the output's, the same buffer.
Activation residual_linear(Pass& pass, const Activation& residual_NO, const Activation& x_ND,
                           const Linear& linear);

// Returns x / root mean square(x) * weight. Saves x and one number per token.
Activation rms_norm(Pass& pass, const Activation& x_ND, const ParameterPtr& weight_D,
                    double epsilon);

// Returns linear(rms_norm(x)). Saves what rms_norm saves; backward computes the normalised x again.
Activation rms_norm_linear(Pass& pass, const Activation& x_ND, const ParameterPtr& norm_weight_D,
                           double epsilon, const Linear& linear);

// Returns linear(x). Saves x.
Activation linear(Pass& pass, const Activation& x_ND, const Linear& linear);

// Returns residual + x. Saves nothing; the gradient of both is the output's.
Activation add(Pass& pass, const Activation& residual_ND, const Activation& x_ND);

// Returns x with elements dropped (see Kernels::dropped). Returns x itself without gradients or
// with a probability of 0. Saves nothing.
Activation dropout(Pass& pass, const Activation& x_ND, const Dropout& dropout);

// Applies RMSNorm to every query head and every key head of qkv_NE, which is consumed. Saves the
// queries and keys, and one number for each of their heads and tokens.
Activation head_norms(Pass& pass, Activation qkv_NE, const AttentionHeads& heads,
                      const ParameterPtr& query_weight_W, const ParameterPtr& key_weight_W,
                      double epsilon);

// Computes causal attention after the rotary embedding of queries and keys (see
// Kernels::attention). Attention stays within heads.window, and within each document, or within
// each sequence if the batch has no documents. qkv_NE is consumed. Returns [N, query * width].
// Saves qkv, the output and the log-sum-exp of each query.
Activation causal_attention(Pass& pass, Activation qkv_NE, int64_t sequence_length,
                            const AttentionHeads& heads, RotaryEmbedding& rotary);

// Returns residual + linear(silu(gate) * up). gate and up are the halves of gate_up's columns.
// Saves gate_up; backward computes the product again.
Activation residual_swiglu_linear(Pass& pass, const Activation& residual_ND,
                                  const Activation& gate_up_N2F, const Linear& linear);

}  // namespace fsdp
