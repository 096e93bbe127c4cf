#include "runner/commands/run_sizes.h"

#include <algorithm>

#include "contract/families/family.h"
#include "contract/inputs/inputs.h"

namespace fsdp {
namespace {

double bytes_of(Dtype dtype) { return dtype == Dtype::kFp32 ? 4 : 2; }

double parameter_bytes(const PrecisionSpec& precision) {
  const bool is_overridden = precision.parameters || precision.reduction || precision.buffers;
  return precision.kind == PrecisionKind::kBf16True && !is_overridden ? 2 : 4;
}

// Returns the bytes of a gradient, as trainer/strategy/precision.cpp chooses its type.
double gradient_bytes(const PrecisionSpec& precision) {
  if (precision.gradients) return bytes_of(*precision.gradients);
  if (!precision.parameters && !precision.reduction && !precision.buffers) {
    return parameter_bytes(precision);
  }
  const Dtype compute = precision.parameters.value_or(Dtype::kFp32);
  return compute == precision.reduction.value_or(compute) ? bytes_of(compute) : 4;
}

// Returns the bytes of optimizer state for one parameter.
double state_bytes(const RunSpec& spec) {
  const OptimizerSpec& optimizer = spec.optimizer;
  const double of_one =
      optimizer.state_dtype ? bytes_of(*optimizer.state_dtype) : parameter_bytes(spec.precision);
  if (optimizer.kind != OptimizerKind::kSgd) return 2 * of_one;
  return optimizer.momentum > 0 ? of_one : 0;
}

// Returns the number of ranks that share one copy of the model.
double ranks_of_a_copy(const StrategySpec& strategy) {
  if (strategy.kind != StrategyKind::kFsdp || strategy.sharding == Sharding::kNoShard) return 1;
  const bool is_hybrid = strategy.sharding == Sharding::kHybridShard;
  return static_cast<double>(is_hybrid ? strategy.shard_group_size.value_or(1) : strategy.ranks);
}

double checkpoint_count(const RunSpec& spec) {
  const CheckpointSpec& checkpoint = spec.checkpoint;
  double count = checkpoint.at_end ? 1 : 0;
  if (checkpoint.every_steps && spec.train.steps) {
    count += static_cast<double>(*spec.train.steps / *checkpoint.every_steps);
  }
  if (checkpoint.keep) count = std::min(count, static_cast<double>(*checkpoint.keep));
  return count + (checkpoint.when_improved ? 1 : 0);
}

}  // namespace

int64_t accumulation(const RunSpec& spec) {
  return spec.batch.gradient_accumulation_steps.value_or(1);
}

KeptBytes kept_bytes(const RunSpec& spec) {
  const StrategySpec& strategy = spec.strategy;
  const double all = parameter_count(model_config(spec));
  const double own = all / ranks_of_a_copy(strategy);
  const bool gradients_are_whole =
      strategy.accumulate == Accumulate::kUnsharded && accumulation(spec) > 1;
  KeptBytes kept;
  if (strategy.offload != Offload::kParameters) {
    kept.parameters = own * parameter_bytes(spec.precision);
  }
  if (!spec.optimizer.in_backward) {
    kept.gradients = (gradients_are_whole ? all : own) * gradient_bytes(spec.precision);
  }
  if (strategy.offload == Offload::kNone) kept.optimizer_state = own * state_bytes(spec);
  return kept;
}

double bytes_on_disk(const RunSpec& spec) {
  const double parameters = parameter_count(model_config(spec));
  return checkpoint_count(spec) * parameters *
         (parameter_bytes(spec.precision) + state_bytes(spec));
}

}  // namespace fsdp
