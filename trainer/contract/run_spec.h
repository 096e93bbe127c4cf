#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/contract/fields.h"

// RunSpec: everything that defines one run. Defaults live here and nowhere else.
namespace fsdp {

enum class DataKind { kTokens, kChess };
enum class StrategyKind { kSingle, kDdp, kFsdp };
enum class Sharding { kFullShard, kShardGradOp, kNoShard, kHybridShard };
enum class WrapPolicy { kNone, kTransformerBlock };
enum class Offload { kNone, kOptimizer, kParameters };
enum class Accumulate { kSharded, kUnsharded };
enum class PrecisionKind { kFp32, kBf16True, kBf16Mixed, kFp16Mixed };
enum class Dtype { kFp32, kBf16, kFp16 };
enum class OptimizerKind { kAdamW, kAdam, kSgd, kAdadelta };
enum class ScheduleKind { kConstant, kLinear, kCosine, kStep };
enum class StateDict { kFull, kSharded };
enum class OnNonFinite { kStop, kSkip };
enum class DeviceKind { kAuto, kCpu, kCuda };

using std::string_view_literals::operator""sv;
constexpr auto enum_names(DataKind) { return std::array{"tokens"sv, "chess"sv}; }
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
constexpr auto enum_names(Dtype) { return std::array{"fp32"sv, "bf16"sv, "fp16"sv}; }
constexpr auto enum_names(OptimizerKind) {
  return std::array{"adamw"sv, "adam"sv, "sgd"sv, "adadelta"sv};
}
constexpr auto enum_names(ScheduleKind) {
  return std::array{"constant"sv, "linear"sv, "cosine"sv, "step"sv};
}
constexpr auto enum_names(StateDict) { return std::array{"full"sv, "sharded"sv}; }
constexpr auto enum_names(OnNonFinite) { return std::array{"stop"sv, "skip"sv}; }
constexpr auto enum_names(DeviceKind) { return std::array{"auto"sv, "cpu"sv, "cuda"sv}; }

// A LLaMA architecture, in the names of Hugging Face's config.json.
struct ModelConfig {
  int64_t num_hidden_layers = 6;
  int64_t hidden_size = 288;
  int64_t intermediate_size = 768;
  int64_t num_attention_heads = 6;
  int64_t num_key_value_heads = 6;
  int64_t vocab_size = 1024;
  double rope_theta = 10000.0;
  double rms_norm_eps = 1e-5;
  bool tie_word_embeddings = false;
  int64_t max_position_embeddings = 2048;

  bool operator==(const ModelConfig&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("num_hidden_layers", self.num_hidden_layers, "Transformer blocks.", at_least(1));
    visit("hidden_size", self.hidden_size, "Width of the residual stream.", at_least(1));
    visit("intermediate_size", self.intermediate_size, "Width of the SwiGLU layer.", at_least(1));
    visit("num_attention_heads", self.num_attention_heads,
          "Query heads; must divide hidden_size into an even head width.", at_least(1));
    visit("num_key_value_heads", self.num_key_value_heads,
          "Key and value heads; must divide num_attention_heads.", at_least(1));
    visit("vocab_size", self.vocab_size, "Tokens in the vocabulary.", at_least(2));
    visit("rope_theta", self.rope_theta, "Base of the rotary embedding.", greater_than(0));
    visit("rms_norm_eps", self.rms_norm_eps, "Added to the mean square.", greater_than(0));
    visit("tie_word_embeddings", self.tie_word_embeddings,
          "Whether the head uses the embedding's weights.", any_value());
    visit("max_position_embeddings", self.max_position_embeddings, "Longest sequence.",
          at_least(1));
  }
};

struct ModelSpec {
  std::filesystem::path source;
  ModelConfig config;

  bool operator==(const ModelSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("source", self.source,
          "Hugging Face folder (config.json and safetensors); excludes config.", any_value());
    visit("config", self.config, "Architecture of a model with random weights from train.seed.",
          any_value());
  }
};

struct DataSpec {
  DataKind kind = DataKind::kChess;
  std::filesystem::path train;
  std::filesystem::path tokenizer;
  int64_t sequence_length = 256;
  bool shuffle = true;

  bool operator==(const DataSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind,
          "tokens: a .npy array [rows, sequence_length + 1] of int32 or int64; chess: a CSV of "
          "games with columns Moves, Termination, Result, one game a row.",
          any_value());
    visit("train", self.train, "Training set; chess: the shipped games when absent.", any_value());
    visit("tokenizer", self.tokenizer,
          "SentencePiece model for chess; the shipped one when absent.", any_value());
    visit("sequence_length", self.sequence_length, "Tokens the model reads per sequence.",
          at_least(1));
    visit("shuffle", self.shuffle, "New order each epoch, from train.seed; false: as stored.",
          any_value());
  }
};

// Written in short as its policy: `wrap: none`.
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
    visit("blocks", self.blocks, "Blocks per unit, instead of a policy.", at_least(1));
    visit(
        "min_parameters", self.min_parameters,
        "Consecutive modules are joined until a unit has as many parameters, instead of a policy.",
        at_least(1));
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
    visit("ranks", self.ranks, "Processes, one per GPU; 1 for single.", at_least(1));
    visit("sharding", self.sharding,
          "fsdp. full_shard: parameters are gathered for each use; shard_grad_op: they stay whole "
          "between forward and backward; no_shard: every rank keeps all, as ddp; hybrid_shard: "
          "full_shard inside groups of shard_group_size ranks, replicas across them.",
          any_value());
    visit("shard_group_size", self.shard_group_size,
          "Ranks that share one copy of the model with hybrid_shard; divides ranks.", at_least(1));
    visit("wrap", self.wrap, "What is gathered, and reduced, together.", any_value());
    visit("prefetch", self.prefetch,
          "How many units ahead parameters are gathered, in forward and in backward; 0: when they "
          "are needed.",
          at_least(0));
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

struct BatchSpec {
  int64_t size_per_rank = 4;
  std::optional<int64_t> total;
  std::optional<int64_t> gradient_accumulation_steps;

  bool operator==(const BatchSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("size_per_rank", self.size_per_rank, "Sequences per rank and micro-batch.", at_least(1));
    visit("total", self.total,
          "Sequences per optimizer step over all ranks; accumulation is derived from it.",
          at_least(1));
    visit("gradient_accumulation_steps", self.gradient_accumulation_steps,
          "Micro-batches per optimizer step, instead of total; 1 when neither is given.",
          at_least(1));
  }
};

struct ActivationCheckpointingSpec {
  int64_t every = 0;

  bool operator==(const ActivationCheckpointingSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("every", self.every,
          "0: off; 1: every block's activations are recomputed; K: every K-th.", at_least(0));
  }
};

// Written in short as its kind: `precision: bf16_mixed`.
struct PrecisionSpec {
  static constexpr bool kHasShortForm = true;
  PrecisionKind kind = PrecisionKind::kFp32;
  std::optional<Dtype> parameters;
  std::optional<Dtype> reduction;
  std::optional<Dtype> buffers;

  bool operator==(const PrecisionSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind,
          "fp32; bf16_true: parameters, gradients and optimizer state in bfloat16; bf16_mixed: "
          "fp32 parameters that are gathered and computed with in bfloat16, gradients reduced in "
          "fp32; fp16_mixed: the same in float16 with dynamic loss scaling.",
          any_value());
    visit("parameters", self.parameters,
          "Instead of a kind: dtype that fp32 parameters are gathered and computed with in.",
          any_value());
    visit("reduction", self.reduction,
          "Instead of a kind: dtype that gradients are reduced in; absent: as parameters.",
          any_value());
    visit("buffers", self.buffers,
          "Instead of a kind: dtype of buffers, such as rotary tables; absent: fp32.", any_value());
  }
};

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double learning_rate = 2e-4;
  double weight_decay = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double momentum = 0.0;
  double rho = 0.9;
  std::optional<double> gradient_clip_norm;
  std::optional<Dtype> state_dtype;
  bool in_backward = false;

  bool operator==(const OptimizerSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind,
          "adamw: Adam with decoupled weight decay (Loshchilov & Hutter 2019); adam (Kingma & Ba "
          "2015); sgd; adadelta (Zeiler 2012).",
          any_value());
    visit("learning_rate", self.learning_rate, "Step size, at its largest.", at_least(0));
    visit("weight_decay", self.weight_decay,
          "Decay of every parameter: decoupled for adamw, else an L2 penalty.", at_least(0));
    visit("beta1", self.beta1, "Adam's decay of the first moment.", from_to_below(0, 1));
    visit("beta2", self.beta2, "Adam's decay of the second moment.", from_to_below(0, 1));
    visit("epsilon", self.epsilon, "Added to the denominator; PyTorch's Adadelta has 1e-6.",
          greater_than(0));
    visit("momentum", self.momentum, "Of sgd.", from_to_below(0, 1));
    visit("rho", self.rho, "Adadelta's decay of squared averages.", from_to_below(0, 1));
    visit("gradient_clip_norm", self.gradient_clip_norm,
          "Largest global gradient norm (L2); absent: no clipping.", greater_than(0));
    visit("state_dtype", self.state_dtype,
          "Dtype that optimizer state is kept in; absent: the parameters'.", any_value());
    visit("in_backward", self.in_backward,
          "Steps a unit as soon as its gradient is reduced and frees the gradient at once; not "
          "with gradient_clip_norm, fp16_mixed or on_non_finite skip, which need all gradients.",
          any_value());
  }
};

// The learning rate of each optimizer step.
struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::kConstant;
  int64_t warmup_steps = 0;
  double min_learning_rate = 0.0;
  std::optional<int64_t> step_size;
  double gamma = 0.1;

  bool operator==(const ScheduleSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind,
          "After the warm-up. constant; linear and cosine: to min_learning_rate at the end; step: "
          "times gamma every step_size steps.",
          any_value());
    visit("warmup_steps", self.warmup_steps,
          "Steps over which the rate rises linearly: step s of W has s / (W + 1) of it.",
          at_least(0));
    visit("min_learning_rate", self.min_learning_rate, "Where linear and cosine end.", at_least(0));
    visit("step_size", self.step_size, "Optimizer steps between decays; absent: one epoch.",
          at_least(1));
    visit("gamma", self.gamma, "Factor of each decay.", greater_than(0));
  }
};

struct TrainSpec {
  std::optional<int64_t> steps;
  std::optional<int64_t> epochs;
  std::optional<int64_t> sequences;
  std::optional<int64_t> max_steps;
  int64_t seed = 1;
  int64_t warmup_steps_excluded = 2;
  OnNonFinite on_non_finite = OnNonFinite::kStop;

  bool operator==(const TrainSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("steps", self.steps, "Optimizer steps; 100 when no length is given.", at_least(1));
    visit("epochs", self.epochs, "Passes over the training set, instead of steps.", at_least(1));
    visit("sequences", self.sequences,
          "Sequences over all ranks and steps, instead of steps: the same data at any batch, but "
          "for a last incomplete one.",
          at_least(1));
    visit("max_steps", self.max_steps,
          "Most optimizer steps, whatever epochs or sequences ask for; absent: no limit.",
          at_least(1));
    visit("seed", self.seed, "Of the random weights and of the shuffled order.", at_least(0));
    visit("warmup_steps_excluded", self.warmup_steps_excluded,
          "First steps that stay out of step-time statistics.", at_least(0));
    visit("on_non_finite", self.on_non_finite,
          "When the loss is NaN or infinite. stop: the run fails; skip: parameters and optimizer "
          "state stay as they are.",
          any_value());
  }
};

struct EvaluationSpec {
  std::optional<int64_t> every_steps;
  bool each_epoch = false;
  std::filesystem::path data;
  double fraction = 0.0;
  std::optional<int64_t> size_per_rank;
  std::optional<int64_t> batches;

  bool operator==(const EvaluationSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("every_steps", self.every_steps, "Optimizer steps between evaluations.", at_least(1));
    visit("each_epoch", self.each_epoch, "Whether to evaluate at the end of each epoch.",
          any_value());
    visit("data", self.data, "Validation set, like data.train.", any_value());
    visit("fraction", self.fraction,
          "Part of the training set, its last rows, that is held out as validation set instead.",
          from_to_below(0, 1));
    visit("size_per_rank", self.size_per_rank,
          "Sequences per rank and batch; absent: as in training.", at_least(1));
    visit("batches", self.batches, "Batches of an evaluation; absent: the whole set.", at_least(1));
  }
};

struct CheckpointSpec {
  std::optional<int64_t> every_steps;
  bool at_end = false;
  bool when_improved = false;
  StateDict state_dict = StateDict::kFull;
  bool single_file = false;
  std::optional<int64_t> keep;

  bool operator==(const CheckpointSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("every_steps", self.every_steps, "Optimizer steps between checkpoints.", at_least(1));
    visit("at_end", self.at_end, "Whether to write one after the last step.", any_value());
    visit("when_improved", self.when_improved,
          "Whether to write one whenever the validation loss is the best so far.", any_value());
    visit("state_dict", self.state_dict,
          "How weights are written. full: a Hugging Face folder; sharded: each rank its part.",
          any_value());
    visit("single_file", self.single_file,
          "Whether full weights are one file however large; false: at most 5 GB each.",
          any_value());
    visit("keep", self.keep, "How many of the newest stay, besides the best; absent: all of them.",
          at_least(1));
  }
};

struct CommunicationSpec {
  double timeout_s = 1800;

  bool operator==(const CommunicationSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("timeout_s", self.timeout_s,
          "How long one operation between ranks may take before the run fails.", greater_than(0));
  }
};

struct DeviceSamplesSpec {
  std::optional<double> every_s;

  bool operator==(const DeviceSamplesSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("every_s", self.every_s,
          "Time between samples of the node's GPUs and CPUs; absent: no samples.", at_least(0.1));
  }
};

struct RunSpec {
  ModelSpec model;
  DataSpec data;
  StrategySpec strategy;
  BatchSpec batch;
  PrecisionSpec precision;
  ActivationCheckpointingSpec activation_checkpointing;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  TrainSpec train;
  EvaluationSpec evaluation;
  CheckpointSpec checkpoint;
  AutoOrPath resume;
  CommunicationSpec communication;
  DeviceSamplesSpec device_samples;
  DeviceKind device = DeviceKind::kAuto;
  std::optional<int64_t> threads_per_rank;
  double memory_limit_gib = 0.0;

  bool operator==(const RunSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("model", self.model, "What is trained.", any_value());
    visit("data", self.data, "What it is trained on.", any_value());
    visit("strategy", self.strategy, "How the work is spread over ranks.", any_value());
    visit("batch", self.batch, "Sequences per step.", any_value());
    visit("precision", self.precision, "Number formats.", any_value());
    visit("activation_checkpointing", self.activation_checkpointing,
          "Recompute activations in backward instead of keeping them.", any_value());
    visit("optimizer", self.optimizer, "How parameters are stepped.", any_value());
    visit("schedule", self.schedule, "The learning rate over the steps.", any_value());
    visit("train", self.train, "How long.", any_value());
    visit("evaluation", self.evaluation, "Loss and token accuracy on a validation set.",
          any_value());
    visit("checkpoint", self.checkpoint,
          "When and how <run>/checkpoints/step-<N>/ is written; one is also written when the run "
          "is asked to stop, if any key of this section asks for checkpoints.",
          any_value());
    visit("resume", self.resume,
          "auto: from the run's newest checkpoint, if there is one; or a checkpoint's folder.",
          any_value());
    visit("communication", self.communication, "What ranks do together.", any_value());
    visit("device_samples", self.device_samples,
          "Utilization, memory, power, temperature and clocks of every GPU of the node, idle ones "
          "too; CPU and memory of the node.",
          any_value());
    visit("device", self.device, "auto: cuda where there is a GPU, else cpu.", any_value());
    visit("threads_per_rank", self.threads_per_rank,
          "CPU threads of one rank; absent: OMP_NUM_THREADS, else cores / local ranks.",
          at_least(1));
    visit("memory_limit_gib", self.memory_limit_gib,
          "A limit of the allocator, as if the card were smaller; 0: none.", at_least(0));
  }
};

// Fills in what follows from other keys, so that the specification is complete: accumulation from
// the total or the total from accumulation, and train.steps from train.sequences or its default.
// Throws ConfigError (place empty, key set) when keys contradict each other.
RunSpec resolved(RunSpec spec);

// The number of sequences per optimizer step over all ranks; `spec` is resolved.
int64_t total_batch(const RunSpec& spec);

// The precision in short: its kind, or "parameters/reduction/buffers".
std::string precision_name(const PrecisionSpec& precision);

// How many of the training set's `rows` are held out as validation set; the rest is trained on.
int64_t held_out_rows(const EvaluationSpec& evaluation, int64_t rows);

// Whether any key asks for checkpoints; for evaluations.
bool wants_checkpoints(const RunSpec& spec);
bool wants_evaluations(const RunSpec& spec);

}  // namespace fsdp
