#include "contract/spec/run_spec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/text/config_error.h"
#include "contract/families/family.h"

namespace fsdp {
namespace {

constexpr int64_t kMostTokens = 1'000'000'000'000'000;  // of a run

[[noreturn]] void refuse(const std::string& key, const std::string& problem) {
  throw ConfigError("", key, problem);
}

void check_model(const ModelConfig& config) {
  try {
    check_model_config(config);
  } catch (const ConfigError& error) {
    refuse(error.key().empty() ? "model.config" : "model.config." + error.key(), error.problem());
  }
}

void check_strategy(const StrategySpec& strategy) {
  if (strategy.kind == StrategyKind::kSingle && strategy.ranks != 1) {
    refuse("strategy.ranks", "is " + std::to_string(strategy.ranks) +
                                 ", but strategy.kind single is one process; allowed: 1");
  }
}

void check_sharding(const StrategySpec& strategy) {
  if (strategy.kind != StrategyKind::kFsdp || strategy.sharding != Sharding::kHybridShard) return;
  if (!strategy.shard_group_size) {
    refuse("strategy.shard_group_size",
           "is missing; hybrid_shard needs the number of ranks that share one copy of the model, "
           "such as the GPUs of a node");
  }
  if (strategy.ranks % *strategy.shard_group_size != 0) {
    refuse("strategy.shard_group_size", std::to_string(*strategy.shard_group_size) +
                                            " does not divide strategy.ranks " +
                                            std::to_string(strategy.ranks));
  }
}

// Refuses in_backward beside keys that need all gradients before the first unit is stepped.
void check_in_backward(const RunSpec& spec) {
  if (!spec.optimizer.in_backward) return;
  const std::string because =
      ", which needs all gradients before the first step; give one of the two";
  if (spec.optimizer.gradient_clip_norm) {
    refuse("optimizer.in_backward", "excludes optimizer.gradient_clip_norm" + because);
  }
  if (spec.train.report_gradient_norm) {
    refuse("optimizer.in_backward", "excludes train.report_gradient_norm" + because);
  }
  if (spec.precision.kind == PrecisionKind::kFp16Mixed) {
    refuse("optimizer.in_backward", "excludes precision fp16_mixed" + because);
  }
  if (spec.train.on_non_finite == OnNonFinite::kSkip) {
    refuse("optimizer.in_backward", "excludes train.on_non_finite skip" + because);
  }
}

void check_rounding(const OptimizerSpec& optimizer) {
  if (optimizer.rounding == Rounding::kStochastic && optimizer.state_dtype == Dtype::kFp16) {
    refuse("optimizer.rounding",
           "stochastic rounds to bf16 alone, but optimizer.state_dtype is fp16; allowed with it: "
           "bf16, fp32, or no state_dtype");
  }
}

Dtype compute_dtype(const PrecisionSpec& precision) {
  if (precision.parameters || precision.reduction || precision.buffers) {
    return precision.parameters.value_or(Dtype::kFp32);
  }
  switch (precision.kind) {
    case PrecisionKind::kFp32:
      return Dtype::kFp32;
    case PrecisionKind::kBf16True:
    case PrecisionKind::kBf16Mixed:
      return Dtype::kBf16;
    case PrecisionKind::kFp16Mixed:
      return Dtype::kFp16;
  }
  throw std::logic_error("precision.kind");
}

void check_precision(const PrecisionSpec& precision) {
  const Dtype compute = compute_dtype(precision);
  const Dtype gradients = precision.gradients.value_or(compute);
  if (gradients == compute || gradients == Dtype::kFp32) return;
  const std::string computed(name_of(compute));
  refuse("precision.gradients",
         "is " + std::string(name_of(gradients)) + ", but the computation is in " + computed +
             "; allowed: " + (compute == Dtype::kFp32 ? "fp32" : computed + " or fp32"));
}

void check_schedule(const RunSpec& spec) {
  const bool is_decaying =
      spec.schedule.kind == ScheduleKind::kLinear || spec.schedule.kind == ScheduleKind::kCosine;
  if (is_decaying && spec.schedule.min_learning_rate > spec.optimizer.learning_rate) {
    refuse("schedule.min_learning_rate", shortest(spec.schedule.min_learning_rate) +
                                             " is above optimizer.learning_rate " +
                                             shortest(spec.optimizer.learning_rate));
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

void check_data_keys(const RunSpec& spec) {
  const DataSpec& data = spec.data;
  if (data.kind == DataKind::kChess) return;
  const std::string kind = "data.kind " + std::string(name_of(data.kind));
  if (data.train.empty()) refuse("data.train", "is missing; " + kind + " needs a file");
  if (data.kind != DataKind::kTokens && data.tokenizer.empty() && spec.model.source.empty()) {
    refuse("data.tokenizer", "is missing; " + kind +
                                 " needs a tokenizer: its file or folder, or a model.source that "
                                 "has one");
  }
}

void derive_batch(BatchSpec& batch, int64_t ranks) {
  const int64_t micro_batch = batch.size_per_rank * ranks;
  if (batch.total && *batch.total % micro_batch != 0) {
    const int64_t below = *batch.total / micro_batch * micro_batch;
    std::string nearest = std::to_string(below + micro_batch);
    if (below > 0) nearest = std::to_string(below) + " and " + nearest;
    refuse("batch.total", std::to_string(*batch.total) + " does not divide into micro-batches of " +
                              std::to_string(batch.size_per_rank) + " per rank x " +
                              std::to_string(ranks) + " ranks = " + std::to_string(micro_batch) +
                              "; the nearest that do: " + nearest);
  }
  if (batch.total) {
    const int64_t derived = *batch.total / micro_batch;
    if (batch.gradient_accumulation_steps.value_or(derived) != derived) {
      refuse("batch.gradient_accumulation_steps",
             std::to_string(*batch.gradient_accumulation_steps) + " contradicts batch.total " +
                 std::to_string(*batch.total) + ", which needs " + std::to_string(derived) +
                 "; give one of the two");
    }
    batch.gradient_accumulation_steps = derived;
  } else {
    batch.gradient_accumulation_steps = batch.gradient_accumulation_steps.value_or(1);
    batch.total = micro_batch * *batch.gradient_accumulation_steps;
  }
  if (*batch.total > kMostSequencesPerStep) {
    refuse("batch.size_per_rank",
           std::to_string(batch.size_per_rank) + " per rank x " + std::to_string(ranks) +
               " ranks x " + std::to_string(*batch.gradient_accumulation_steps) +
               " micro-batches are " + std::to_string(*batch.total) +
               " sequences per step; allowed: at most " + std::to_string(kMostSequencesPerStep));
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
    refuse("train.sequences", std::to_string(*train.sequences) + " is less than one step's " +
                                  std::to_string(total_batch) + "; allowed: at least " +
                                  std::to_string(total_batch));
  }
  if (train.steps.value_or(steps) != steps) {
    refuse("train.sequences", std::to_string(*train.sequences) + " contradicts train.steps " +
                                  std::to_string(*train.steps) + "; give one of the two");
  }
  if (steps > kMostSteps) {
    refuse("train.sequences", std::to_string(*train.sequences) + " gives " + std::to_string(steps) +
                                  " steps; allowed: at most " + std::to_string(kMostSteps));
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
  check_strategy(spec.strategy);
  check_sharding(spec.strategy);
  check_in_backward(spec);
  check_precision(spec.precision);
  check_rounding(spec.optimizer);
  check_schedule(spec);
  check_evaluation(spec);
  derive_batch(spec.batch, spec.strategy.ranks);
  derive_steps(spec.train, *spec.batch.total);
  if (spec.train.steps) planned_steps(spec, 1);
  check_data_keys(spec);
  if (spec.model.source.empty() &&
      takes_key(family_of(spec.model.config), "max_position_embeddings") &&
      spec.data.sequence_length > spec.model.config.max_position_embeddings) {
    refuse("data.sequence_length",
           std::to_string(spec.data.sequence_length) + " is longer than the model's positions; " +
               "allowed: at most " + std::to_string(spec.model.config.max_position_embeddings));
  }
  return spec;
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
    refuse(length_key(spec.train), "gives " + std::to_string(steps) + " steps; allowed: at most " +
                                       std::to_string(kMostSteps));
  }
  if (steps * total_batch(spec) > kMostTokens / spec.data.sequence_length) {
    refuse(length_key(spec.train),
           "gives " + std::to_string(steps) + " steps of " + std::to_string(total_batch(spec)) +
               " sequences of " + std::to_string(spec.data.sequence_length) +
               " tokens; allowed: at most " + std::to_string(kMostTokens) + " tokens in all");
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

bool wants_checkpoints(const RunSpec& spec) {
  return spec.checkpoint.every_steps || spec.checkpoint.at_end || spec.checkpoint.when_improved;
}

bool wants_evaluations(const RunSpec& spec) {
  return spec.evaluation.every_steps || spec.evaluation.each_epoch;
}

}  // namespace fsdp
