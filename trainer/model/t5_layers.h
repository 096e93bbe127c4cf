#pragma once

#include "contract/families/model_config.h"
#include "trainer/model/layers.h"

// The layers that T5 alone has; see layers.h.
//
// Shape suffixes: N tokens of all rows, T of one, H heads, W head width, F intermediate_size.
namespace fsdp {

// Which kind of distance from a query to a key every pair of positions has, from 0: int64
// [queries * keys], on the CPU. `both_ways`: of keys before and after the query; otherwise those
// after it are of kind 0. As T5Attention._relative_position_bucket of transformers.
at::Tensor distance_kinds(int64_t queries, int64_t keys, int64_t kinds, int64_t distance_max,
                          bool both_ways);

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
