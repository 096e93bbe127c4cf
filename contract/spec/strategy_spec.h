#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/text/fields.h"

// How a run's work is spread over ranks, and its number formats.
namespace fsdp {

enum class StrategyKind { kSingle, kDdp, kFsdp };
enum class Sharding { kFullShard, kShardGradOp, kNoShard, kHybridShard };
enum class WrapPolicy { kNone, kTransformerBlock };
enum class Offload { kNone, kOptimizer, kParameters };
enum class Accumulate { kSharded, kUnsharded };
enum class PrecisionKind { kFp32, kBf16True, kBf16Mixed, kFp16Mixed };
enum class CheckpointedPart { kBlock, kMlp, kAttention };
enum class Dtype { kFp32, kBf16, kFp16 };

constexpr auto enum_names(StrategyKind) { return std::array{"single"sv, "ddp"sv, "fsdp"sv}; }
constexpr auto enum_names(Sharding) {
  return std::array{"full_shard"sv, "shard_grad_op"sv, "no_shard"sv, "hybrid_shard"sv};
}
constexpr auto enum_names(WrapPolicy) { return std::array{"none"sv, "transformer_block"sv}; }
constexpr auto enum_names(Offload) { return std::array{"none"sv, "optimizer"sv, "parameters"sv}; }
constexpr auto enum_names(Accumulate) { return std::array{"sharded"sv, "unsharded"sv}; }
constexpr auto enum_names(PrecisionKind) {
  return std::array{"fp32"sv, "bf16_true"sv, "bf16_mixed"sv, "fp16_mixed"sv};
}
constexpr auto enum_names(CheckpointedPart) {
  return std::array{"block"sv, "mlp"sv, "attention"sv};
}
constexpr auto enum_names(Dtype) { return std::array{"fp32"sv, "bf16"sv, "fp16"sv}; }

// May be written as its policy: `wrap: none`.
struct WrapSpec {
  static constexpr bool kHasShortForm = true;
  WrapPolicy policy = WrapPolicy::kTransformerBlock;
  std::optional<int64_t> blocks;
  std::optional<int64_t> min_parameters;

  bool operator==(const WrapSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("policy", self.policy,
          "none: the whole model is one unit; transformer_block: each block is one, and so are the "
          "embedding and the head.",
          any_value());
    visit("blocks", self.blocks, "Blocks per unit, instead of a policy.", from_to(1, 1e5));
    visit(
        "min_parameters", self.min_parameters,
        "Consecutive modules are joined until a unit has as many parameters, instead of a policy.",
        from_to(1, 1e15));
  }
};

struct StrategySpec {
  StrategyKind kind = StrategyKind::kSingle;
  int64_t ranks = 1;
  Sharding sharding = Sharding::kFullShard;
  std::optional<int64_t> shard_group_size;
  WrapSpec wrap;
  int64_t prefetch = 1;
  bool limit_all_gathers = true;
  Offload offload = Offload::kNone;
  Accumulate accumulate = Accumulate::kSharded;

  bool operator==(const StrategySpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind,
          "single: one process; ddp: replicas that all-reduce gradients; fsdp: parameters, "
          "gradients and optimizer state sharded over the ranks.",
          any_value());
    visit("ranks", self.ranks, "Processes, one per GPU; 1 for single.", from_to(1, 1e5));
    visit("sharding", self.sharding,
          "fsdp. full_shard: parameters are gathered for each use; shard_grad_op: they stay whole "
          "between forward and backward; no_shard: every rank keeps all, as ddp; hybrid_shard: "
          "full_shard inside groups of shard_group_size ranks, replicas across them.",
          any_value());
    visit("shard_group_size", self.shard_group_size,
          "Ranks that share one copy of the model with hybrid_shard; divides ranks.",
          from_to(1, 1e5));
    visit("wrap", self.wrap, "What is gathered, and reduced, together.", any_value());
    visit("prefetch", self.prefetch,
          "How many units ahead parameters are gathered, in forward and in backward, at most all; "
          "0: when they are needed.",
          from_to(0, 1e6));
    visit("limit_all_gathers", self.limit_all_gathers,
          "Whether a gather waits until the memory of a unit before it is free again; false: the "
          "device may hold as many units as the host is ahead.",
          any_value());
    visit("offload", self.offload,
          "optimizer: gradients leave for CPU memory, optimizer state and step live there; "
          "parameters: so do the parameters, which come back for each gather.",
          any_value());
    visit("accumulate", self.accumulate,
          "fsdp with accumulation. sharded: reduce every micro-batch, keep shards; unsharded: "
          "reduce at the last one only, keep whole gradients.",
          any_value());
  }
};

// May be written as its kind: `precision: bf16_mixed`.
struct PrecisionSpec {
  static constexpr bool kHasShortForm = true;
  PrecisionKind kind = PrecisionKind::kFp32;
  std::optional<Dtype> parameters;
  std::optional<Dtype> gradients;
  std::optional<Dtype> reduction;
  std::optional<Dtype> buffers;

  // The number format of products.
  Dtype compute() const {
    if (parameters || reduction || buffers) return parameters.value_or(Dtype::kFp32);
    if (kind == PrecisionKind::kFp32) return Dtype::kFp32;
    return kind == PrecisionKind::kFp16Mixed ? Dtype::kFp16 : Dtype::kBf16;
  }

  bool operator==(const PrecisionSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind,
          "fp32; bf16_true: parameters, gradients and optimizer state in bfloat16; bf16_mixed: "
          "fp32 parameters that are gathered and computed with in bfloat16, gradients summed and "
          "reduced in fp32; fp16_mixed: the same in float16 with dynamic loss scaling.",
          any_value());
    visit("parameters", self.parameters,
          "Instead of a kind: dtype that fp32 parameters are gathered and computed with in.",
          any_value());
    visit("gradients", self.gradients,
          "Dtype that gradients of weights are written in, and summed over micro-batches: fp32, or "
          "that of the computation; absent: bf16 with bf16_true, else the wider of computation and "
          "reduction.",
          any_value());
    visit("reduction", self.reduction,
          "Instead of a kind: dtype that gradients are reduced in; absent: as parameters.",
          any_value());
    visit("buffers", self.buffers,
          "Instead of a kind: dtype of buffers, such as rotary tables; absent: fp32.", any_value());
  }
};

struct ActivationCheckpointingSpec {
  int64_t every = 0;
  CheckpointedPart what = CheckpointedPart::kBlock;

  bool operator==(const ActivationCheckpointingSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("every", self.every,
          "0: off; 1: every block's activations are recomputed; K: every K-th.", from_to(0, 1e5));
    visit("what", self.what,
          "Of a block. block: all but its input; mlp: what the MLP's first product gives, the most "
          "memory for the least time; attention: what attention and the products before it give.",
          any_value());
  }
};

}  // namespace fsdp
