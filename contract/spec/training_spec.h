#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/text/fields.h"
#include "contract/spec/chosen_steps.h"

// The sections of a run about training: strategy, precision, activation checkpointing, optimizer,
// schedule, length, evaluation and checkpoints.
//
// To add a key, such as momentum: add the member with its default, and its line with a sentence and
// a range. Unless the key changes losses, the line has an Effect (base/text/fields.h). No product
// of keys may overflow within their ranges. Other sections are in contract/spec/*_spec.h. Use the
// key in trainer/step/ or trainer/train/, and test its use. Give it another value than the default
// in tests/contract/run_spec_yaml_test.cpp. Checks of several keys are in
// contract/spec/run_spec.cpp, and words of other trainers in contract/spec/synonyms.cpp.
// tests/parity/ compares the numbers.
//
// To add an optimizer, a schedule, a wrap policy or a precision: add its name to the enum and to
// the key's sentence. They act in trainer/step/optimizer.cpp, trainer/train/schedule.cpp,
// trainer/engine/units.cpp and trainer/strategy/precision.cpp. tests/parity/test_optimizers.py and
// tests/parity/test_precision.py compare them with PyTorch. A precision is also checked by
// trainer/self_test/step_checks.cpp. If it saves memory, runner/plan/suggestions.cpp suggests it.
namespace fsdp {

enum class StrategyKind { kSingle, kDdp, kFsdp };
enum class Sharding { kFullShard, kShardGradOp, kNoShard, kHybridShard };
enum class WrapPolicy { kNone, kTransformerBlock };
enum class Offload { kNone, kOptimizer, kParameters };
enum class Accumulate { kSharded, kUnsharded };
enum class PrecisionKind { kFp32, kBf16True, kBf16Mixed, kFp16Mixed, kFp64 };
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
  return std::array{"fp32"sv, "bf16_true"sv, "bf16_mixed"sv, "fp16_mixed"sv, "fp64"sv};
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

  static void visit_fields(auto& self, auto&& visit) {
    visit("policy", self.policy,
          "none: the whole model is one unit; transformer_block: each block is one, and so are the "
          "embedding and the head.");
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

  static void visit_fields(auto& self, auto&& visit) {
    visit("kind", self.kind,
          "single: one process; ddp: replicas that all-reduce gradients; fsdp: parameters, "
          "gradients and optimizer state sharded over the ranks.");
    visit("ranks", self.ranks, "Processes, one per GPU; 1 for single.", from_to(1, 1e5));
    visit("sharding", self.sharding,
          "fsdp. full_shard: parameters are gathered for each use; shard_grad_op: they stay whole "
          "between forward and backward; no_shard: every rank keeps all, as ddp; hybrid_shard: "
          "full_shard inside groups of shard_group_size ranks, replicas across them.");
    visit("shard_group_size", self.shard_group_size,
          "Ranks that share one copy of the model with hybrid_shard; divides ranks.",
          from_to(1, 1e5));
    visit("wrap", self.wrap,
          "The modules of one unit: their parameters are gathered, and their gradients reduced, "
          "together.");
    visit("prefetch", self.prefetch,
          "How many units ahead parameters are gathered, in forward and in backward, at most all; "
          "0: when they are needed.",
          from_to(0, 1e6));
    visit("limit_all_gathers", self.limit_all_gathers,
          "Whether a gather waits until the memory of a unit before it is free again; false: the "
          "device may hold as many units as the host is ahead.");
    visit("offload", self.offload,
          "optimizer: gradients leave for CPU memory, optimizer state and step live there; "
          "parameters: so do the parameters, which come back for each gather.");
    visit("accumulate", self.accumulate,
          "fsdp with accumulation. sharded: reduce every micro-batch, keep shards; unsharded: "
          "reduce at the last one only, keep whole gradients.");
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

  // The number format of products. fp64 counts as fp32, which is as wide as a GPU computes here.
  Dtype compute() const {
    if (parameters || reduction || buffers) return parameters.value_or(Dtype::kFp32);
    if (kind == PrecisionKind::kFp32 || kind == PrecisionKind::kFp64) return Dtype::kFp32;
    return kind == PrecisionKind::kFp16Mixed ? Dtype::kFp16 : Dtype::kBf16;
  }

  bool operator==(const PrecisionSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("kind", self.kind,
          "fp32; bf16_true: parameters, gradients and optimizer state in bfloat16; bf16_mixed: "
          "fp32 parameters that are gathered and computed with in bfloat16, gradients summed and "
          "reduced in fp32; fp16_mixed: the same in float16 with dynamic loss scaling; fp64: "
          "everything, on CPUs, to tell rounding from a fault.");
    visit("parameters", self.parameters,
          "Instead of a kind: dtype that fp32 parameters are gathered and computed with in.");
    visit("gradients", self.gradients,
          "Dtype that gradients of weights are written in, and summed over micro-batches: fp32, or "
          "that of the computation; absent: bf16 with bf16_true, else the wider of computation and "
          "reduction.");
    visit("reduction", self.reduction,
          "Instead of a kind: dtype that gradients are reduced in; absent: as parameters.");
    visit("buffers", self.buffers,
          "Instead of a kind: dtype of buffers, such as rotary tables; absent: fp32.");
  }
};

struct ActivationCheckpointingSpec {
  int64_t every = 0;
  CheckpointedPart what = CheckpointedPart::kBlock;

  bool operator==(const ActivationCheckpointingSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("every", self.every,
          "0: off; 1: every block's activations are recomputed; K: every K-th.", from_to(0, 1e5));
    visit("what", self.what,
          "Of a block. block: all but its input; mlp: what the MLP's first product gives, the most "
          "memory for the least time; attention: what attention and the products before it give.");
  }
};

// This limit keeps products such as steps x sequences per step within 64 bits (see run_spec.cpp).
inline constexpr int64_t kMostSteps = 1'000'000'000;
inline constexpr int64_t kLargestSeed = int64_t{1} << 53;  // JSON readers are exact up to here

enum class OptimizerKind { kAdamW, kAdam, kSgd, kAdadelta };
enum class StateDtype { kFp32, kBf16, kFp16, kInt8 };
enum class Rounding { kNearest, kStochastic };
enum class ScheduleKind { kConstant, kLinear, kCosine, kStep };
enum class StateDict { kFull, kSharded };
enum class OnNonFinite { kStop, kSkip };

constexpr auto enum_names(OptimizerKind) {
  return std::array{"adamw"sv, "adam"sv, "sgd"sv, "adadelta"sv};
}
constexpr auto enum_names(StateDtype) { return std::array{"fp32"sv, "bf16"sv, "fp16"sv, "int8"sv}; }
constexpr auto enum_names(Rounding) { return std::array{"nearest"sv, "stochastic"sv}; }
constexpr auto enum_names(ScheduleKind) {
  return std::array{"constant"sv, "linear"sv, "cosine"sv, "step"sv};
}
constexpr auto enum_names(StateDict) { return std::array{"full"sv, "sharded"sv}; }
constexpr auto enum_names(OnNonFinite) { return std::array{"stop"sv, "skip"sv}; }

// The parameters that weight decay can leave out.
inline Range undecayed() {
  static constexpr TextForm kForm{.description = "norm or bias", .pattern = "norm|bias"};
  return {.form = &kForm};
}

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double learning_rate = 2e-4;
  double weight_decay = 0.0;
  TextList no_decay;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double momentum = 0.0;
  double rho = 0.9;
  std::optional<double> gradient_clip_norm;
  std::optional<StateDtype> state_dtype;
  Rounding rounding = Rounding::kNearest;
  bool in_backward = false;

  bool operator==(const OptimizerSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("kind", self.kind,
          "adamw: Adam with decoupled weight decay (Loshchilov & Hutter 2019); adam (Kingma & Ba "
          "2015); sgd; adadelta (Zeiler 2012).");
    visit("learning_rate", self.learning_rate, "Step size, at its largest.", from_to(0, 1e6));
    visit("weight_decay", self.weight_decay,
          "Decay of parameters: decoupled for adamw, else an L2 penalty.", from_to(0, 1e6));
    visit("no_decay", self.no_decay,
          "Parameters that weight_decay leaves out: norm, the weights of norms; bias. Empty: none; "
          "the Trainer of transformers leaves out both.",
          undecayed());
    visit("beta1", self.beta1, "Adam's decay of the first moment.", from_to_below(0, 1));
    visit("beta2", self.beta2, "Adam's decay of the second moment.", from_to_below(0, 1));
    visit("epsilon", self.epsilon, "Added to the denominator; PyTorch's Adadelta has 1e-6.",
          above_to(0, 1));
    visit("momentum", self.momentum, "Of sgd.", from_to_below(0, 1));
    visit("rho", self.rho, "Adadelta's decay of squared averages.", from_to_below(0, 1));
    visit("gradient_clip_norm", self.gradient_clip_norm,
          "Largest global gradient norm (L2); absent: no clipping.", above_to(0, 1e30));
    visit(
        "state_dtype", self.state_dtype,
        "Dtype that optimizer state is kept in; absent: the parameters'. int8, of adamw and adam: "
        "codes of 8 bits with a scale for each 256 elements (Dettmers et al. 2022), and fp32 for "
        "parameters below 4,096 elements.");
    visit("rounding", self.rounding,
          "How bf16 parameters and state are rounded after a step. nearest: changes of less than "
          "half a last digit are lost; stochastic: up or down at random (from train.seed), correct "
          "on average. fp32 is not rounded; not with state_dtype fp16.");
    visit("in_backward", self.in_backward,
          "Steps a unit as soon as its gradient is reduced and frees the gradient at once; not "
          "with gradient_clip_norm, report_gradient_norm, fp16_mixed or on_non_finite skip, which "
          "need all gradients.",
          Effect::kNotLosses);
  }
};

// The learning rate of each optimizer step.
struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::kConstant;
  int64_t warmup_steps = 0;
  std::optional<double> warmup_ratio;
  bool warmup_from_zero = false;
  double min_learning_rate = 0.0;
  std::optional<int64_t> decay_steps;
  std::optional<int64_t> step_size;
  double gamma = 0.1;

  bool operator==(const ScheduleSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("kind", self.kind,
          "After the warm-up. constant; linear and cosine: to min_learning_rate at the end; step: "
          "times gamma every step_size steps.");
    visit("warmup_steps", self.warmup_steps,
          "Steps over which the rate rises linearly: step s of W has s / (W + 1) of it.",
          from_to(0, kMostSteps));
    visit("warmup_ratio", self.warmup_ratio,
          "Instead of warmup_steps: part of the steps until the decay ends, rounded up.",
          from_to(0, 1));
    visit("warmup_from_zero", self.warmup_from_zero,
          "Whether step s of the warm-up has (s - 1) / W of the rate, as in transformers.");
    visit("min_learning_rate", self.min_learning_rate, "Where linear and cosine end.",
          from_to(0, 1e6));
    visit("decay_steps", self.decay_steps,
          "Last step of the decay of linear and cosine; the rate then stays at min_learning_rate. "
          "Absent: the run's last step. If given, a run with more train.steps has the same rates.",
          from_to(1, kMostSteps));
    visit("step_size", self.step_size, "Optimizer steps between decays; absent: one epoch.",
          from_to(1, kMostSteps));
    visit("gamma", self.gamma, "Factor of each decay.", above_to(0, 1e6));
  }
};

// Names of steps.
inline Range chosen_steps() {
  static const TextForm kForm{.description = "7, 3-9 or every 10",
                              .pattern = R"((every )?0*[1-9]\d*|0*[1-9]\d*-0*[1-9]\d*)",
                              .holds = names_steps};
  return {.form = &kForm};
}

struct TrainSpec {
  std::optional<int64_t> steps;
  std::optional<int64_t> epochs;
  std::optional<int64_t> sequences;
  std::optional<int64_t> max_steps;
  int64_t seed = 1;
  bool deterministic = false;
  int64_t warmup_steps_excluded = 2;
  int64_t account_steps = 3;
  int64_t trace_steps = 0;
  TextList fingerprint_steps;
  OnNonFinite on_non_finite = OnNonFinite::kStop;
  bool report_gradient_norm = false;

  bool operator==(const TrainSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("steps", self.steps, "Optimizer steps; 100 when no length is given.",
          from_to(1, kMostSteps));
    visit("epochs", self.epochs, "Passes over the training set, instead of steps.",
          from_to(1, 1e9));
    visit("sequences", self.sequences,
          "Sequences over all ranks and steps, instead of steps: the same data at any batch, "
          "except for a last incomplete batch.",
          from_to(1, 1e15));
    visit("max_steps", self.max_steps,
          "Most optimizer steps, whatever epochs or sequences ask for; absent: no limit.",
          from_to(1, kMostSteps));
    visit("seed", self.seed,
          "Of the random weights, of the shuffled order and of stochastic rounding.",
          from_to(0, kLargestSeed));
    visit("deterministic", self.deterministic,
          "Whether only algorithms are taken that give the same bits every time, on the same ranks "
          "and cards; slower on a GPU.",
          Effect::kNotLosses);
    visit("warmup_steps_excluded", self.warmup_steps_excluded,
          "First steps that stay out of step-time statistics.", from_to(0, kMostSteps),
          Effect::kNotLosses);
    visit("account_steps", self.account_steps,
          "Steps after the warm-up whose time is split into parts, such as products, waits for "
          "collectives and the optimizer; 0: none.",
          from_to(0, 1000), Effect::kNotLosses);
    visit("trace_steps", self.trace_steps,
          "Number of steps after the warm-up to trace, for export --format trace; 0: none. Traced "
          "steps have accounts, too.",
          from_to(0, 10), Effect::kNotLosses);
    visit("fingerprint_steps", self.fingerprint_steps,
          "Steps whose weights, activations, gradients and states leave fingerprints, for "
          "fsdp-run diverge. Empty: none.",
          chosen_steps(), Effect::kNotLosses);
    visit("on_non_finite", self.on_non_finite,
          "When the loss is NaN or infinite. stop: the run fails; skip: parameters and optimizer "
          "state stay as they are.");
    visit("report_gradient_norm", self.report_gradient_norm,
          "Whether each step's global gradient norm (L2) is reported also without "
          "optimizer.gradient_clip_norm; not with optimizer.in_backward.",
          Effect::kNotLosses);
  }
};

struct EvaluationSpec {
  std::optional<int64_t> every_steps;
  bool each_epoch = false;
  std::filesystem::path data;
  double fraction = 0.0;
  std::optional<int64_t> split_seed;
  std::optional<int64_t> size_per_rank;
  std::optional<int64_t> batches;

  bool operator==(const EvaluationSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("every_steps", self.every_steps, "Optimizer steps between evaluations.",
          from_to(1, kMostSteps), Effect::kNotLosses);
    visit("each_epoch", self.each_epoch, "Whether to evaluate at the end of each epoch.",
          Effect::kNotLosses);
    visit("data", self.data, "Validation set, like data.train.", path_or(HubNames::kFile),
          Effect::kNotLosses);
    visit("fraction", self.fraction,
          "Part of the training set, its last documents, held out as validation set instead.",
          from_to_below(0, 1));
    visit("split_seed", self.split_seed,
          "The fraction is drawn at random from this seed instead, as PyTorch's random_split does.",
          from_to(0, 4294967295));
    visit("size_per_rank", self.size_per_rank,
          "Sequences per rank and batch; absent: as in training.", from_to(1, 1e6),
          Effect::kNotLosses);
    visit("batches", self.batches, "Batches of an evaluation; absent: the whole set.",
          from_to(1, 1e9), Effect::kNotLosses);
  }
};

struct CheckpointSpec {
  std::optional<int64_t> every_steps;
  bool at_end = false;
  bool when_improved = false;
  StateDict state_dict = StateDict::kFull;
  bool single_file = false;
  bool merge = false;
  std::optional<Dtype> merge_dtype;
  std::optional<int64_t> keep;

  bool operator==(const CheckpointSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("every_steps", self.every_steps, "Optimizer steps between checkpoints.",
          from_to(1, kMostSteps));
    visit("at_end", self.at_end, "Whether to write one after the last step.");
    visit("when_improved", self.when_improved,
          "Whether to write one whenever the validation loss is the best so far.");
    visit("state_dict", self.state_dict,
          "How weights are written. full: a Hugging Face folder; sharded: each rank its part.");
    visit("single_file", self.single_file,
          "Whether full weights are one file however large; false: at most 5 GB each.");
    visit("merge", self.merge,
          "Whether the folder merged/ of a checkpoint gets the model with its adapters merged into "
          "the weights; needs state_dict full.");
    visit("merge_dtype", self.merge_dtype,
          "Dtype of the merged model; absent: the trained parameters'. qlora has to give it.");
    visit("keep", self.keep, "How many of the newest stay, besides the best; absent: all of them.",
          from_to(1, kMostSteps));
  }
};

}  // namespace fsdp
