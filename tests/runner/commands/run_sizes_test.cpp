#include "runner/commands/run_sizes.h"

#include <catch2/catch.hpp>

#include "contract/families/family.h"
#include "contract/inputs/inputs.h"

// The files that runs keep, by the number of parameters and the bytes of each.
namespace fsdp {
namespace {

RunSpec spec_of(StrategyKind kind, int64_t ranks) {
  RunSpec spec;
  spec.strategy.kind = kind;
  spec.strategy.ranks = ranks;
  return spec;
}

// Bytes per parameter of the model: of parameters, gradients and the optimizer's state.
std::vector<double> bytes_per_parameter(const RunSpec& spec) {
  const double parameters = parameter_count(model_config(spec));
  const KeptBytes kept = kept_bytes(spec);
  return {kept.parameters / parameters, kept.gradients / parameters,
          kept.optimizer_state / parameters};
}

using Bytes = std::vector<double>;

TEST_CASE("a rank keeps its part of parameters, gradients and the optimizer's state") {
  CHECK(bytes_per_parameter(spec_of(StrategyKind::kSingle, 1)) == Bytes{4, 4, 8});
  CHECK(bytes_per_parameter(spec_of(StrategyKind::kDdp, 4)) == Bytes{4, 4, 8});
  RunSpec spec = spec_of(StrategyKind::kFsdp, 4);
  CHECK(bytes_per_parameter(spec) == Bytes{1, 1, 2});
  spec.strategy.sharding = Sharding::kHybridShard;
  spec.strategy.shard_group_size = 2;
  CHECK(bytes_per_parameter(spec) == Bytes{2, 2, 4});
  spec.strategy.sharding = Sharding::kNoShard;
  CHECK(bytes_per_parameter(spec) == Bytes{4, 4, 8});
}

TEST_CASE("what is offloaded is not on the device") {
  RunSpec spec = spec_of(StrategyKind::kFsdp, 4);
  spec.strategy.offload = Offload::kOptimizer;
  CHECK(bytes_per_parameter(spec) == Bytes{1, 1, 0});
  spec.strategy.offload = Offload::kParameters;
  CHECK(bytes_per_parameter(spec) == Bytes{0, 1, 0});
}

TEST_CASE("number formats and the optimizer decide the bytes of a parameter") {
  RunSpec spec = spec_of(StrategyKind::kSingle, 1);
  spec.precision.kind = PrecisionKind::kBf16Mixed;
  CHECK(bytes_per_parameter(spec) == Bytes{4, 4, 8});
  spec.precision.kind = PrecisionKind::kBf16True;
  CHECK(bytes_per_parameter(spec) == Bytes{2, 2, 4});
  spec.optimizer.state_dtype = Dtype::kFp32;
  CHECK(bytes_per_parameter(spec) == Bytes{2, 2, 8});
  spec.optimizer.kind = OptimizerKind::kSgd;
  CHECK(bytes_per_parameter(spec) == Bytes{2, 2, 0});
  spec.optimizer.momentum = 0.9;
  CHECK(bytes_per_parameter(spec) == Bytes{2, 2, 4});
  spec.optimizer.in_backward = true;
  CHECK(bytes_per_parameter(spec) == Bytes{2, 0, 4});
}

TEST_CASE("gradients that accumulate unsharded are whole") {
  RunSpec spec = spec_of(StrategyKind::kFsdp, 4);
  spec.strategy.accumulate = Accumulate::kUnsharded;
  CHECK(bytes_per_parameter(spec) == Bytes{1, 1, 2});
  spec.batch.gradient_accumulation_steps = 2;
  CHECK(bytes_per_parameter(spec) == Bytes{1, 4, 2});
}

TEST_CASE("checkpoints take their number times parameters and state") {
  RunSpec spec = spec_of(StrategyKind::kSingle, 1);
  const double parameters = parameter_count(model_config(spec));
  CHECK(bytes_on_disk(spec) == 0);
  spec.train.steps = 100;
  spec.checkpoint.every_steps = 20;
  CHECK(bytes_on_disk(spec) == 5 * 12 * parameters);
  spec.checkpoint.keep = 2;
  spec.checkpoint.when_improved = true;
  CHECK(bytes_on_disk(spec) == 3 * 12 * parameters);
}

}  // namespace
}  // namespace fsdp
