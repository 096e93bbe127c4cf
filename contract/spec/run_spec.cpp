// Fills in keys that follow from others, and refuses keys that contradict each other.
#include "contract/spec/run_spec.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>

#include "base/text/config_error.h"
#include "contract/families/adapters.h"
#include "contract/families/family.h"
#include "contract/families/flops.h"

namespace fsdp {

// --- forms of text ---

namespace {

// A regular expression takes the stack of a long text.
constexpr TextForm kOneLine{.description = "one line of text",
                            .pattern = R"([^\x00-\x1f\x7f]+)",
                            .holds = [](std::string_view) { return true; }};
constexpr TextForm kSlurmTime{
    .description = "a time as Slurm writes it: minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS",
    .pattern = R"(\d{1,9}(:\d{1,9}){0,2}|\d{1,9}-\d{1,9}(:\d{1,9}){0,2})"};
constexpr TextForm kSlurmMemory{
    .description = "MiB or, with K, M, G or T, another unit: 4000, 16G; 0: all of a node's",
    .pattern = R"(\d{1,12}[KMGTkmgt]?)"};
constexpr TextForm kAssignment{
    .description = "NAME=value, of which NAME has letters, digits and _ and begins with no digit",
    .pattern = "[A-Za-z_][A-Za-z0-9_]*=.*"};
constexpr TextForm kSbatchOption{
    .description = "an option such as --nice=100",
    .pattern = "(#SBATCH )?--.+",
    .dropped_prefix = "#SBATCH ",
    .holds = [](std::string_view text) { return text.starts_with("--") && text.size() > 2; }};

}  // namespace

Range one_line() { return {.form = &kOneLine}; }
Range slurm_time() { return {.form = &kSlurmTime}; }
Range slurm_memory() { return {.form = &kSlurmMemory}; }
Range assignment() { return {.form = &kAssignment}; }
Range sbatch_option() { return {.form = &kSbatchOption}; }

std::optional<int64_t> node_memory_bytes(const SlurmSpec& slurm) {
  constexpr std::string_view kUnits = "KMGT";
  int64_t amount = 0;
  const auto [end, error] =
      std::from_chars(slurm.mem.data(), slurm.mem.data() + slurm.mem.size(), amount);
  if (error != std::errc() || amount == 0) return std::nullopt;
  const bool has_unit = end != slurm.mem.data() + slurm.mem.size();
  const char unit = has_unit ? static_cast<char>(std::toupper(*end)) : 'M';
  const int shift = 10 * (static_cast<int>(kUnits.find(unit)) + 1);
  constexpr int64_t kMost = int64_t{1} << 60;
  return amount > (kMost >> shift) ? kMost : amount << shift;
}

// --- keys that contradict each other ---

namespace {

constexpr int64_t kMostTokens = 1'000'000'000'000'000;  // of a run

// Throws ConfigError. Its problem is the text of all `parts`.
[[noreturn]] void refuse(const std::string& key, const auto&... parts) {
  std::ostringstream problem;
  (problem << ... << parts);
  throw ConfigError("", key, problem.str());
}

void check_model(const ModelConfig& config) {
  try {
    check_model_config(config);
  } catch (const ConfigError& error) {
    refuse(error.key().empty() ? "model.config" : "model.config." + error.key(), error.problem());
  }
}

void check_method(const RunSpec& spec) {
  if (spec.method == Method::kFull && spec.lora != LoraSpec()) {
    refuse(
        "lora",
        "has keys, but method is full, which has no adapters; set method: lora or qlora, or leave "
        "the section out");
  }
  if (spec.method != Method::kFull && spec.model.source.empty()) {
    check_adapters(spec.model.config, spec.lora);
  }
}

void check_merge(const RunSpec& spec) {
  const CheckpointSpec& checkpoint = spec.checkpoint;
  if (!checkpoint.merge) {
    if (!checkpoint.merge_dtype) return;
    refuse("checkpoint.merge_dtype",
           "is given, but checkpoint.merge is false; set merge: true, or leave merge_dtype out");
  }
  if (spec.method == Method::kFull) {
    refuse("checkpoint.merge",
           "is true, but method is full, which has no adapters; its checkpoints are whole models, "
           "so leave merge out");
  }
  if (checkpoint.state_dict != StateDict::kFull) {
    refuse("checkpoint.merge",
           "is true, but checkpoint.state_dict is sharded, which gathers no adapters; set "
           "state_dict: full, or leave merge out");
  }
  if (spec.method == Method::kQlora && !checkpoint.merge_dtype) {
    refuse("checkpoint.merge_dtype",
           "is missing; qlora's weights have 4 bits, so say in which dtype they are merged: fp32, "
           "bf16 or fp16");
  }
}

void check_strategy(const StrategySpec& strategy) {
  if (strategy.kind == StrategyKind::kSingle && strategy.ranks != 1) {
    refuse("strategy.ranks", "is ", strategy.ranks,
           ", but strategy.kind single is one process; allowed: 1");
  }
  if (strategy.kind != StrategyKind::kFsdp || strategy.sharding != Sharding::kHybridShard) return;
  if (!strategy.shard_group_size) {
    refuse("strategy.shard_group_size",
           "is missing; hybrid_shard needs the number of ranks that share one copy of the model, "
           "such as the GPUs of a node");
  }
  if (strategy.ranks % *strategy.shard_group_size != 0) {
    refuse("strategy.shard_group_size", *strategy.shard_group_size,
           " does not divide strategy.ranks ", strategy.ranks);
  }
}

// Refuses in_backward together with keys that need all gradients before the first unit is stepped.
void check_in_backward(const RunSpec& spec) {
  const std::pair<bool, const char*> others[] = {
      {spec.optimizer.gradient_clip_norm.has_value(), "optimizer.gradient_clip_norm"},
      {spec.train.report_gradient_norm, "train.report_gradient_norm"},
      {spec.precision.kind == PrecisionKind::kFp16Mixed, "precision fp16_mixed"},
      {spec.train.on_non_finite == OnNonFinite::kSkip, "train.on_non_finite skip"}};
  for (const auto& [is_given, other] : others) {
    if (!spec.optimizer.in_backward || !is_given) continue;
    refuse("optimizer.in_backward", "excludes ", other,
           ", which needs all gradients before the first step; give one of the two");
  }
}

void check_state_dtype(const OptimizerSpec& optimizer) {
  if (optimizer.rounding == Rounding::kStochastic && optimizer.state_dtype == StateDtype::kFp16) {
    refuse("optimizer.rounding",
           "stochastic rounds to bf16 only, but optimizer.state_dtype is fp16; allowed with it: "
           "bf16, fp32, int8, or no state_dtype");
  }
  const bool is_adam =
      optimizer.kind == OptimizerKind::kAdamW || optimizer.kind == OptimizerKind::kAdam;
  if (optimizer.state_dtype == StateDtype::kInt8 && !is_adam) {
    refuse("optimizer.state_dtype", "int8 is for adamw and adam, but optimizer.kind is ",
           name_of(optimizer.kind), "; allowed with it: fp32, bf16, fp16, or no state_dtype");
  }
}

void check_fp64(const RunSpec& spec) {
  if (spec.precision.kind != PrecisionKind::kFp64) return;
  if (spec.device != DeviceKind::kCpu) {
    refuse("precision", "fp64 is for CPUs; set device: cpu, or precision: fp32");
  }
  const std::pair<bool, const char*> others[] = {
      {spec.precision.gradients.has_value(), "precision.gradients"},
      {spec.optimizer.state_dtype.has_value(), "optimizer.state_dtype"},
      {spec.method == Method::kQlora, "method qlora"}};
  for (const auto& [is_given, other] : others) {
    if (is_given) refuse("precision", "fp64 excludes ", other, "; give one of the two");
  }
}

void check_precision(const PrecisionSpec& precision) {
  const Dtype compute = precision.compute();
  const Dtype gradients = precision.gradients.value_or(compute);
  if (gradients == compute || gradients == Dtype::kFp32) return;
  const std::string_view computed = name_of(compute);
  refuse("precision.gradients", "is ", name_of(gradients), ", but the computation is in ", computed,
         "; allowed: ", computed, compute == Dtype::kFp32 ? "" : " or fp32");
}

void check_schedule(const RunSpec& spec) {
  const bool is_decaying =
      spec.schedule.kind == ScheduleKind::kLinear || spec.schedule.kind == ScheduleKind::kCosine;
  if (is_decaying && spec.schedule.min_learning_rate > spec.optimizer.learning_rate) {
    refuse("schedule.min_learning_rate", shortest(spec.schedule.min_learning_rate),
           " is above optimizer.learning_rate ", shortest(spec.optimizer.learning_rate));
  }
}

void check_evaluation(const RunSpec& spec) {
  const EvaluationSpec& evaluation = spec.evaluation;
  const bool has_set = !evaluation.data.empty() || evaluation.fraction > 0;
  if (wants_evaluations(spec) && !has_set) {
    refuse("evaluation.data",
           "is missing; evaluations need a validation set: evaluation.data, or "
           "evaluation.fraction of the training set");
  }
  if (spec.checkpoint.when_improved && !wants_evaluations(spec)) {
    refuse("checkpoint.when_improved",
           "needs evaluations; set evaluation.every_steps or evaluation.each_epoch");
  }
}

void check_data(const RunSpec& spec) {
  const DataSpec& data = spec.data;
  if (data.kind == DataKind::kChess) return;
  const std::string_view kind = name_of(data.kind);
  if (data.train.empty()) {
    refuse("data.train", "is missing; data.kind ", kind, " needs a file");
  }
  if (data.kind == DataKind::kTokens && data.max_documents) {
    refuse("data.max_documents",
           "is for files of records; data.kind tokens has none; leave it out");
  }
  if (data.kind == DataKind::kMessages && data.split_special_tokens) {
    refuse("data.split_special_tokens",
           "is true, but data.kind messages writes special tokens into its text; leave it out");
  }
  if (data.kind != DataKind::kTokens && data.tokenizer.empty() && spec.model.source.empty()) {
    refuse("data.tokenizer", "is missing; data.kind ", kind,
           " needs a tokenizer: its file or folder, or a model.source that has one");
  }
}

void derive_batch(BatchSpec& batch, int64_t ranks) {
  const int64_t micro_batch = batch.size_per_rank * ranks;
  if (batch.total && *batch.total % micro_batch != 0) {
    const int64_t below = *batch.total / micro_batch * micro_batch;
    refuse("batch.total", *batch.total, " does not divide into micro-batches of ",
           batch.size_per_rank, " per rank x ", ranks, " ranks = ", micro_batch,
           "; the nearest that do: ", below > 0 ? std::to_string(below) + " and " : "",
           below + micro_batch);
  }
  if (batch.total) {
    const int64_t derived = *batch.total / micro_batch;
    if (batch.gradient_accumulation_steps.value_or(derived) != derived) {
      refuse("batch.gradient_accumulation_steps", *batch.gradient_accumulation_steps,
             " contradicts batch.total ", *batch.total, ", which needs ", derived,
             "; give one of the two");
    }
    batch.gradient_accumulation_steps = derived;
  } else {
    batch.gradient_accumulation_steps = batch.gradient_accumulation_steps.value_or(1);
    batch.total = micro_batch * *batch.gradient_accumulation_steps;
  }
  if (*batch.total > kMostSequencesPerStep) {
    refuse("batch.size_per_rank", batch.size_per_rank, " per rank x ", ranks, " ranks x ",
           *batch.gradient_accumulation_steps, " micro-batches are ", *batch.total,
           " sequences per step; allowed: at most ", kMostSequencesPerStep);
  }
}

void derive_steps(TrainSpec& train, int64_t total_batch) {
  if (train.epochs && (train.steps || train.sequences)) {
    refuse("train.epochs", "contradicts train.steps or train.sequences; give one of the three");
  }
  if (!train.sequences) {
    if (!train.epochs) train.steps = train.steps.value_or(100);
    return;
  }
  const int64_t steps = *train.sequences / total_batch;
  if (steps == 0) {
    refuse("train.sequences", *train.sequences, " is less than one step's ", total_batch,
           "; allowed: at least ", total_batch);
  }
  if (train.steps.value_or(steps) != steps) {
    refuse("train.sequences", *train.sequences, " contradicts train.steps ", *train.steps,
           "; give one of the two");
  }
  if (steps > kMostSteps) {
    refuse("train.sequences", *train.sequences, " gives ", steps, " steps; allowed: at most ",
           kMostSteps);
  }
  train.steps = steps;
}

// The key that sets the length of the run.
const char* length_key(const TrainSpec& train) {
  if (train.epochs) return "train.epochs";
  return train.sequences ? "train.sequences" : "train.steps";
}

}  // namespace

RunSpec resolved(RunSpec spec) {
  if (spec.model.source.empty()) check_model(spec.model.config);
  check_method(spec);
  check_merge(spec);
  check_strategy(spec.strategy);
  check_in_backward(spec);
  check_fp64(spec);
  check_precision(spec.precision);
  check_state_dtype(spec.optimizer);
  check_schedule(spec);
  check_evaluation(spec);
  derive_batch(spec.batch, spec.strategy.ranks);
  derive_steps(spec.train, *spec.batch.total);
  if (spec.train.steps) planned_steps(spec, 1);
  check_data(spec);
  const int64_t positions = spec.model.config.max_position_embeddings;
  if (spec.model.source.empty() &&
      takes_key(family_of(spec.model.config), "max_position_embeddings") &&
      spec.data.sequence_length > positions) {
    refuse("data.sequence_length", spec.data.sequence_length,
           " is longer than the model's positions; allowed: at most ", positions);
  }
  return spec;
}

RunSpec resolved_again(RunSpec spec) {
  spec.batch.total.reset();
  if (spec.train.sequences) spec.train.steps.reset();
  return resolved(std::move(spec));
}

int64_t total_batch(const RunSpec& spec) { return spec.batch.total.value(); }

int64_t wanted_steps(const RunSpec& spec, int64_t steps_per_epoch) {
  if (spec.train.steps) return *spec.train.steps;
  int64_t steps = 0;
  const bool overflows = __builtin_mul_overflow(*spec.train.epochs, steps_per_epoch, &steps);
  return overflows ? std::numeric_limits<int64_t>::max() : steps;
}

int64_t planned_steps(const RunSpec& spec, int64_t steps_per_epoch) {
  const int64_t wanted = wanted_steps(spec, steps_per_epoch);
  const int64_t steps = std::min(spec.train.max_steps.value_or(wanted), wanted);
  if (steps > kMostSteps) {
    refuse(length_key(spec.train), "gives ", steps, " steps; allowed: at most ", kMostSteps);
  }
  if (steps * total_batch(spec) > kMostTokens / spec.data.sequence_length) {
    refuse(length_key(spec.train), "gives ", steps, " steps of ", total_batch(spec),
           " sequences of ", spec.data.sequence_length, " tokens; allowed: at most ", kMostTokens,
           " tokens in all");
  }
  return steps;
}

int64_t memory_limit_bytes(const RunSpec& spec) {
  return static_cast<int64_t>(std::ceil(spec.memory_limit_gib * (int64_t{1} << 30)));
}

int64_t held_out_rows(const EvaluationSpec& evaluation, int64_t rows) {
  if (evaluation.fraction == 0) return 0;
  return std::max<int64_t>(1,
                           static_cast<int64_t>(evaluation.fraction * static_cast<double>(rows)));
}

bool has_dropout(const RunSpec& spec, const ModelConfig& config) {
  return config.dropout_rate > 0 || spec.lora.dropout > 0;
}

bool wants_checkpoints(const RunSpec& spec) {
  return spec.checkpoint.every_steps || spec.checkpoint.at_end || spec.checkpoint.when_improved;
}

double tokens_per_step(const RunSpec& spec) {
  const DataSpec& data = spec.data;
  const int64_t row = data.kind == DataKind::kWikihow ? data.input_length + data.target_length
                                                      : data.sequence_length;
  return static_cast<double>(spec.batch.total.value_or(0)) * static_cast<double>(row);
}

bool wants_evaluations(const RunSpec& spec) {
  return spec.evaluation.every_steps || spec.evaluation.each_epoch;
}

namespace {

double recomputed_flops(const BlockFlops& block, CheckpointedPart part) {
  switch (part) {
    case CheckpointedPart::kBlock:
      return block.total() - block.last;
    case CheckpointedPart::kMlp:
      return block.mlp;
    case CheckpointedPart::kAttention:
      return block.attention;
  }
  return 0;
}

}  // namespace

double hardware_flops(const ForwardFlops& forward,
                      const ActivationCheckpointingSpec& checkpointing) {
  if (checkpointing.every == 0) return model_flops(forward);
  // Counts the checkpointed blocks: the first of every `checkpointing.every`. The decoder's blocks
  // continue the encoder's count.
  const auto among_first = [&](int64_t blocks) {
    return (blocks + checkpointing.every - 1) / checkpointing.every;
  };
  const int64_t blocks = among_first(forward.blocks);
  const int64_t decoder_blocks = among_first(forward.blocks + forward.decoder_blocks) - blocks;
  return model_flops(forward) +
         static_cast<double>(blocks) * recomputed_flops(forward.block, checkpointing.what) +
         static_cast<double>(decoder_blocks) *
             recomputed_flops(forward.decoder_block, checkpointing.what);
}

}  // namespace fsdp
