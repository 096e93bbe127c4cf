#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/text/fields.h"
#include "contract/families/adapters.h"
#include "contract/families/model_config.h"
#include "contract/spec/data_spec.h"
#include "contract/spec/slurm_spec.h"
#include "contract/spec/training_spec.h"

// RunSpec: everything that defines one run. Defaults are only here and in its sections' headers.
namespace fsdp {

struct ForwardFlops;

inline constexpr int64_t kMostSequencesPerStep = 1'000'000'000;
inline constexpr int64_t kMostThreads = 4096;  // of a rank
inline constexpr double kYear_s = 365.0 * 24 * 3600;

enum class DeviceKind { kAuto, kCpu, kCuda };
enum class KernelSet { kAuto, kAten, kTransformerEngine };
enum class Binding { kNuma, kNone };

constexpr auto enum_names(DeviceKind) { return std::array{"auto"sv, "cpu"sv, "cuda"sv}; }
constexpr auto enum_names(KernelSet) {
  return std::array{"auto"sv, "aten"sv, "transformer_engine"sv};
}
constexpr auto enum_names(Binding) { return std::array{"numa"sv, "none"sv}; }

struct ModelSpec {
  std::filesystem::path source;
  ModelConfig config;

  bool operator==(const ModelSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("source", self.source,
          "Hugging Face folder (config.json and weights), or a model's name on a hub, "
          "organization/name; excludes config.",
          path_or(HubNames::kModel));
    visit("config", self.config, model_config_documentation());
  }
};

struct BatchSpec {
  int64_t size_per_rank = 4;
  std::optional<int64_t> total;
  std::optional<int64_t> gradient_accumulation_steps;

  bool operator==(const BatchSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("size_per_rank", self.size_per_rank, "Sequences per rank and micro-batch.",
          from_to(1, 1e6), Effect::kLossesWithDropout);
    visit("total", self.total,
          "Sequences per optimizer step over all ranks; accumulation is derived from it.",
          from_to(1, kMostSequencesPerStep));
    visit("gradient_accumulation_steps", self.gradient_accumulation_steps,
          "Micro-batches per optimizer step, instead of total; 1 when neither is given.",
          from_to(1, 1e6), Effect::kNotLosses);
  }
};

struct CommunicationSpec {
  double timeout_s = 1800;
  double rendezvous_timeout_s = 60;
  double start_up_timeout_s = 300;

  bool operator==(const CommunicationSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("timeout_s", self.timeout_s,
          "How long one operation between ranks may take before the run fails.",
          from_to(0.001, kYear_s));
    visit("rendezvous_timeout_s", self.rendezvous_timeout_s,
          "How long a rank waits for the others to start before the run fails.",
          from_to(1, kYear_s));
    visit("start_up_timeout_s", self.start_up_timeout_s,
          "How long one part of a rank's start may take, such as opening the device or loading a "
          "file of weights, before the run fails and says which.",
          from_to(1, kYear_s));
  }
};

struct DeviceSamplesSpec {
  std::optional<double> every_s;

  bool operator==(const DeviceSamplesSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("every_s", self.every_s,
          "Time between samples of the node's GPUs and CPUs; absent: no samples.",
          from_to(0.1, kYear_s));
  }
};

// The names that `fsdp-run export` writes for an upload to Weights & Biases, MLflow or Trackio.
struct WandbSpec {
  std::optional<std::string> entity;
  std::optional<std::string> project;
  std::optional<std::string> name;
  bool log_model = false;

  bool operator==(const WandbSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("entity", self.entity,
          "User or team; absent: WANDB_ENTITY at the time of the export, else the default of who "
          "uploads.");
    visit("project", self.project,
          "Project, in MLflow an experiment; absent: WANDB_PROJECT at the time of the export, else "
          "the experiment's name.");
    visit("name", self.name, "Name of the run; absent: its point.");
    visit("log_model", self.log_model, "Whether the newest checkpoint is uploaded too.");
  }
};

struct RunSpec {
  ModelSpec model;
  Method method = Method::kFull;
  LoraSpec lora;
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
  WandbSpec wandb;
  SlurmSpec slurm;
  DeviceKind device = DeviceKind::kAuto;
  KernelSet kernels = KernelSet::kAuto;
  std::optional<int64_t> threads_per_rank;
  Binding bind = Binding::kNuma;
  double memory_limit_gib = 0.0;
  TextList environment;

  bool operator==(const RunSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("model", self.model, "What is trained.");
    visit("method", self.method,
          "full: all parameters are trained; lora: those of low-rank adapters, the others are "
          "frozen; qlora: as lora, with the weights of blocks in 4 bits (NF4).");
    visit("lora", self.lora, "The adapters of lora and qlora.");
    visit("data", self.data, "What it is trained on.");
    visit("strategy", self.strategy, "How the work is spread over ranks.", any_value(),
          Effect::kNotLosses);
    visit("batch", self.batch, "Sequences per step.");
    visit("precision", self.precision, "Number formats.");
    visit("activation_checkpointing", self.activation_checkpointing,
          "Recompute activations in backward instead of keeping them.", any_value(),
          Effect::kNotLosses);
    visit("optimizer", self.optimizer, "How parameters are stepped.");
    visit("schedule", self.schedule, "The learning rate over the steps.");
    visit("train", self.train, "How long.");
    visit("evaluation", self.evaluation, "Loss and token accuracy on a validation set.");
    visit("checkpoint", self.checkpoint,
          "When and how <run>/checkpoints/step-<N>/ is written; one is also written when the run "
          "is asked to stop, if any key of this section asks for checkpoints.",
          Effect::kNotLosses);
    visit(
        "resume", self.resume,
        "auto: from the run's newest checkpoint, if there is one; never: from the beginning; or a "
        "checkpoint's folder, from which the run begins and then goes on from its own. auto when "
        "not given and the run keeps checkpoints.",
        Effect::kHowOnly);
    visit("communication", self.communication, "What ranks do together.", any_value(),
          Effect::kHowOnly);
    visit("device_samples", self.device_samples,
          "Utilization, memory, power, temperature and clocks of every GPU of the node, idle ones "
          "too; CPU and memory of the node.",
          Effect::kHowOnly);
    visit("wandb", self.wandb,
          "Names for Weights & Biases; nothing is sent, `fsdp-run export` writes what to upload.",
          Effect::kHowOnly);
    visit("slurm", self.slurm,
          "What a run asks of Slurm, with --launcher slurm; otherwise it means nothing.",
          Effect::kHowOnly);
    visit("device", self.device, "auto: cuda where there is a GPU, else cpu.", any_value(),
          Effect::kLossesWithDropout);
    visit("kernels", self.kernels,
          "aten: libtorch's, and some of our own on CUDA; transformer_engine: NVIDIA's and our own "
          "on CUDA, where its wheel is installed; auto: aten.");
    visit("threads_per_rank", self.threads_per_rank,
          "CPU threads of one rank; absent: OMP_NUM_THREADS, else cores / local ranks.",
          from_to(1, kMostThreads), Effect::kNotLosses);
    visit("bind", self.bind,
          "numa: a rank with a GPU runs on the CPUs next to it, where the host says which and they "
          "are an even share of those that the ranks may use. none: every rank stays as it is.",
          Effect::kNotLosses);
    visit("memory_limit_gib", self.memory_limit_gib,
          "A limit of the allocator, as if the card were smaller; 0: none.",
          from_to(0, kMostMemoryGib), Effect::kNotLosses);
    visit("environment", self.environment,
          "Variables of the ranks' environment, NAME=value; with a launcher of fsdp-run.",
          assignment(), Effect::kNotLosses);
  }
};

// Fills in the keys that follow from others. The total batch and the accumulation follow from each
// other. train.steps follows from train.sequences, or has its default. Throws ConfigError (place
// empty, key set) if keys contradict each other.
RunSpec resolved(RunSpec spec);
// Resolves a specification that was changed after it was resolved.
RunSpec resolved_again(RunSpec spec);

// The number of sequences per optimizer step over all ranks. `spec` must be resolved.
int64_t total_batch(const RunSpec& spec);

// The number of optimizer steps of a run. `steps_per_epoch` is the number of whole steps in an
// epoch. Throws ConfigError if the steps or their tokens exceed the limits. wanted_steps() ignores
// train.max_steps, and returns the largest int64_t on overflow.
int64_t planned_steps(const RunSpec& spec, int64_t steps_per_epoch);
int64_t wanted_steps(const RunSpec& spec, int64_t steps_per_epoch);

// memory_limit_gib in bytes; 0: no limit.
int64_t memory_limit_bytes(const RunSpec& spec);

// The number of the training set's `rows` that are held out for validation.
int64_t held_out_rows(const EvaluationSpec& evaluation, int64_t rows);

// The tokens of a step of all ranks, with all that fill rows up. Every row counts as the longest.
double tokens_per_step(const RunSpec& spec);

// True if the training of a model with `config` drops activations at random.
bool has_dropout(const RunSpec& spec, const ModelConfig& config);

// True if a key asks for checkpoints, or for evaluations.
bool wants_checkpoints(const RunSpec& spec);
bool wants_evaluations(const RunSpec& spec);

// The FLOPs computed in training: model_flops, and a second forward of all that activation
// checkpointing recomputes: not of a block's last product, which no backward reads. The backward of
// fused attention counts as two forwards, although it computes its first product again.
double hardware_flops(const ForwardFlops& forward,
                      const ActivationCheckpointingSpec& checkpointing);

}  // namespace fsdp
