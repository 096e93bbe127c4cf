#pragma once

#include "contract/families/model_config.h"
#include "trainer/model/layers.h"

// The layers that only T5 has; see layers.h.
//
// Shape suffixes: N tokens of all rows, T of one row, H heads, W head width, F intermediate_size.
namespace fsdp {

// Returns the kind (T5's bucket, from 0) of each distance from a query to a key. The result is
// int64 [2 * distance_max + 1] on the CPU, for distances from -distance_max to distance_max. Larger
// distances have the kind of the last one. With `both_ways`, keys before and after the query have
// different kinds. Without it, keys after the query have kind 0. It follows
// T5Attention._relative_position_bucket of transformers.
at::Tensor distance_kinds(int64_t kinds, int64_t distance_max, bool both_ways);

// Returns the kind of every pair of a query and a key [length * length], on the device of `kinds`,
// the result of distance_kinds.
at::Tensor kinds_of_pairs(const at::Tensor& kinds, int64_t length);

// Returns the bias [H, T, T] of every head for pairs of positions of such kinds. Saves the kinds.
Activation relative_bias(Pass& pass, const at::Tensor& kinds, int64_t length,
                         const ParameterPtr& weight);

struct BiasedAttentionOptions {
  int64_t rows = 1;
  int64_t heads = 1;
  at::Tensor key_counts_B{};  // see Kernels::BiasedAttention, also for the fields below
  bool is_causal = false;
  Dropout dropout{};  // not applied without gradients
};
// Computes attention of queries [N, H * W] to keys and values [M, 2 * H * W]. Returns [N, H * W].
// All rows have equally many queries, and equally many keys. The bias is null or comes from
// relative_bias. Saves its inputs and the output, and on a GPU the log-sum-exp of each query.
Activation biased_attention(Pass& pass, const Activation& query_NE, const Activation& key_value_ME,
                            const Activation* bias_HTS, const BiasedAttentionOptions& options);

// Returns relu(x) for x [N, F], or gelu(gate) * up for x [N, 2F]. Saves x.
Activation feed_forward_activation(Pass& pass, const Activation& x, FeedForward kind);

}  // namespace fsdp
