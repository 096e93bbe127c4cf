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
  RunSpec adapted;
  adapted.method = Method::kLora;
  other = adapted;
  other.lora.alpha = 3;
  other.lora.use_rslora = true;
  other.lora.adapter = "folder";
  CHECK(identity_of(other) == identity_of(adapted));
  ModelConfig deeper;
  deeper.num_hidden_layers = 80;
  CHECK(calibration_identity(spec, deeper) == calibration_identity(spec, ModelConfig()));
}

TEST_CASE("whatever changes how long a piece takes makes it another calibration") {
  RunSpec spec;
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
  CHECK(changed([](RunSpec& run) { run.method = Method::kLora; }));
  spec.method = Method::kLora;
  CHECK(changed([](RunSpec& run) { run.lora.rank = 3; }));
  CHECK(changed([](RunSpec& run) { run.lora.targets = {"mlp"}; }));
  CHECK(changed([](RunSpec& run) { run.method = Method::kQlora; }));
  ModelConfig wider;
  wider.hidden_size *= 2;
  CHECK(calibration_identity(spec, wider) != calibration_identity(spec, ModelConfig()));
}

TEST_CASE("a calibration says how it differs from what is planned") {
  Calibration wanted;
  wanted.device = "EPYC";
  wanted.libtorch = "2.11.0";
  wanted.ranks = 4;
  wanted.threads = 2;
  const auto misfit = [&](auto&& change) {
    Calibration found = wanted;
    change(found);
    return calibration_misfit(found, wanted);
  };
  CHECK(misfit([](Calibration&) {}).empty());
  CHECK(misfit([](Calibration& found) { found.device = "Xeon"; }) ==
        "was measured on 'Xeon', not on 'EPYC'");
  CHECK(misfit([](Calibration& found) { found.libtorch = "2.10.0"; }) ==
        "was measured with libtorch 2.10.0, not 2.11.0");
  CHECK(misfit([](Calibration& found) { found.ranks = 1; }) == "was measured by 1 rank, not by 4");
  CHECK(misfit([](Calibration& found) { found.threads = 1; }) ==
        "was measured with 1 thread a rank, not 2");
  wanted.threads = 0;  // unknown, as the GPUs are another host's
  CHECK(misfit([](Calibration& found) { found.threads = 7; }).empty());
}

}  // namespace
}  // namespace fsdp::test
