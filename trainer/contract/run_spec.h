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
enum class Offload { kNone, kOptimizer };
enum class Accumulate { kSharded, kUnsharded };
enum class Precision { kFp32, kBf16True };
enum class OptimizerKind { kAdamW };
enum class DeviceKind { kAuto, kCpu, kCuda };

using std::string_view_literals::operator""sv;
constexpr auto enum_names(DataKind) { return std::array{"tokens"sv, "chess"sv}; }
constexpr auto enum_names(StrategyKind) { return std::array{"single"sv, "ddp"sv, "fsdp"sv}; }
constexpr auto enum_names(Offload) { return std::array{"none"sv, "optimizer"sv}; }
constexpr auto enum_names(Accumulate) { return std::array{"sharded"sv, "unsharded"sv}; }
constexpr auto enum_names(Precision) { return std::array{"fp32"sv, "bf16_true"sv}; }
constexpr auto enum_names(OptimizerKind) { return std::array{"adamw"sv}; }
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

struct StrategySpec {
  StrategyKind kind = StrategyKind::kSingle;
  int64_t ranks = 1;
  Offload offload = Offload::kNone;
  Accumulate accumulate = Accumulate::kSharded;

  bool operator==(const StrategySpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind,
          "single: one process; ddp: replicas that all-reduce gradients; fsdp: parameters, "
          "gradients and optimizer state sharded over the ranks (FULL_SHARD).",
          any_value());
    visit("ranks", self.ranks, "Processes, one per GPU; 1 for single.", at_least(1));
    visit("offload", self.offload,
          "optimizer: gradients leave for CPU memory, AdamW's state and step live there.",
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

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double learning_rate = 2e-4;
  double weight_decay = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  std::optional<double> gradient_clip_norm;

  bool operator==(const OptimizerSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("kind", self.kind, "AdamW with decoupled weight decay (Loshchilov & Hutter 2019).",
          any_value());
    visit("learning_rate", self.learning_rate, "Step size.", at_least(0));
    visit("weight_decay", self.weight_decay, "Decoupled decay of every parameter.", at_least(0));
    visit("beta1", self.beta1, "Decay of the first moment.", from_to_below(0, 1));
    visit("beta2", self.beta2, "Decay of the second moment.", from_to_below(0, 1));
    visit("epsilon", self.epsilon, "Added to the denominator.", greater_than(0));
    visit("gradient_clip_norm", self.gradient_clip_norm,
          "Largest global gradient norm (L2); absent: no clipping.", greater_than(0));
  }
};

struct TrainSpec {
  std::optional<int64_t> steps;
  std::optional<int64_t> epochs;
  std::optional<int64_t> sequences;
  int64_t seed = 1;
  int64_t warmup_steps_excluded = 2;

  bool operator==(const TrainSpec&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("steps", self.steps, "Optimizer steps; 100 when no length is given.", at_least(1));
    visit("epochs", self.epochs, "Passes over the training set, instead of steps.", at_least(1));
    visit("sequences", self.sequences,
          "Sequences over all ranks and steps, instead of steps: the same data at any batch, but "
          "for a last incomplete one.",
          at_least(1));
    visit("seed", self.seed, "Of the random weights and of the shuffled order.", at_least(0));
    visit("warmup_steps_excluded", self.warmup_steps_excluded,
          "First steps that stay out of step-time statistics.", at_least(0));
  }
};

struct RunSpec {
  ModelSpec model;
  DataSpec data;
  StrategySpec strategy;
  BatchSpec batch;
  Precision precision = Precision::kFp32;
  ActivationCheckpointingSpec activation_checkpointing;
  OptimizerSpec optimizer;
  TrainSpec train;
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
    visit("precision", self.precision,
          "fp32, or bf16_true: parameters, gradients and optimizer state in bfloat16.",
          any_value());
    visit("activation_checkpointing", self.activation_checkpointing,
          "Recompute activations in backward instead of keeping them.", any_value());
    visit("optimizer", self.optimizer, "How parameters are stepped.", any_value());
    visit("train", self.train, "How long.", any_value());
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

}  // namespace fsdp
