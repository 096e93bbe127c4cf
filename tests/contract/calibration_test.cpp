#include "contract/plan/calibration.h"

#include <catch2/catch.hpp>

namespace fsdp::test {
namespace {

std::string identity_of(const RunSpec& spec) {
  return calibration_identity(spec, spec.model.config);
}

TEST_CASE("runs whose steps are made of the same pieces share a calibration") {
  const RunSpec spec;
  RunSpec other = spec;
  other.batch.size_per_rank = 7;
  other.train.steps = 100;
  other.optimizer.learning_rate = 0.5;
  other.strategy.prefetch = 2;
  CHECK(identity_of(other) == identity_of(spec));
  ModelConfig deeper;
  deeper.num_hidden_layers = 80;
  CHECK(calibration_identity(spec, deeper) == calibration_identity(spec, ModelConfig()));
}

TEST_CASE("whatever changes how long a piece takes makes it another calibration") {
  const RunSpec spec;
  const auto changed = [&](auto&& change) {
    RunSpec other = spec;
    change(other);
    return identity_of(other) != identity_of(spec);
  };
  CHECK(changed([](RunSpec& run) { run.strategy.ranks = 2; }));
  CHECK(changed([](RunSpec& run) { run.data.sequence_length += 1; }));
  CHECK(changed([](RunSpec& run) { run.precision.kind = PrecisionKind::kBf16Mixed; }));
  CHECK(changed([](RunSpec& run) { run.optimizer.kind = OptimizerKind::kSgd; }));
  CHECK(changed([](RunSpec& run) { run.activation_checkpointing.every = 1; }));
  CHECK(changed([](RunSpec& run) { run.strategy.offload = Offload::kOptimizer; }));
  CHECK(changed([](RunSpec& run) { run.threads_per_rank = 3; }));
  ModelConfig wider;
  wider.hidden_size *= 2;
  CHECK(calibration_identity(spec, wider) != calibration_identity(spec, ModelConfig()));
}

}  // namespace
}  // namespace fsdp::test
