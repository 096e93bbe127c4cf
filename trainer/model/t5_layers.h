#pragma once

#include "contract/families/model_config.h"
#include "trainer/model/layers.h"

// The layers that T5 alone has; see layers.h.
//
// Shape suffixes: N tokens of all rows, T of one, H heads, W head width, F intermediate_size.
namespace fsdp {

// Returns the kind of each distance from a query to a key among `length` positions, from 0: int64
// [2 * length - 1], on the CPU; the first is that of the last query to the first key. `both_ways`:
// of keys before and after the query; otherwise those after it are of kind 0. As
// T5Attention._relative_position_bucket of transformers.
at::Tensor distance_kinds(int64_t length, int64_t kinds, int64_t distance_max, bool both_ways);

// Returns the kind of every pair of a query and a key [length * length], on the device of `kinds`,
// which distance_kinds gave for as many positions or more.
at::Tensor kinds_of_pairs(const at::Tensor& kinds, int64_t length);

// The bias [H, T, T] of every head for pairs of positions of such kinds. Saves the kinds.
Activation relative_bias(Pass& pass, const at::Tensor& kinds, int64_t length,
                         const ParameterPtr& weight);

struct BiasedAttentionOptions {
  int64_t rows = 1;
  int64_t heads = 1;
  at::Tensor key_counts_B{};  // see Kernels::BiasedAttention, as the following
  bool is_causal = false;
  Dropout dropout{};  // left out without gradients
};
// Attention of queries [N, H * W] to keys and values [M, 2 * H * W], which rows divide equally;
// bias: null, or as relative_bias gives it. Returns [N, H * W]. Saves all of them and the output,
// and on a GPU the log-sum-exp of each query.
Activation biased_attention(Pass& pass, const Activation& query_NE, const Activation& key_value_ME,
                            const Activation* bias_HTS, const BiasedAttentionOptions& options);

// relu(x) of x [N, F], or gelu(gate) * up of [N, 2F]. Saves x.
Activation feed_forward_activation(Pass& pass, const Activation& x, FeedForward kind);

}  // namespace fsdp
