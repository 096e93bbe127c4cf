#include <catch2/catch.hpp>

#include "tests/runner/experiment/expanded_experiment.h"

namespace fsdp {
namespace {

const std::string kBase = "experiment: lab\nbase:\n";

// Returns a run with these keys, which are indented lines of `base`.
RunSpec run_of(const std::string& keys, const ExpandOptions& options = {}) {
  return expanded(kBase + keys, options).runs.at(0).spec;
}

}  // namespace

TEST_CASE("a value follows from other keys of the run it is in") {
  const Expansion expansion = expanded(R"(
experiment: lab
base:
  optimizer.learning_rate: ${batch.size_per_rank} * 1e-4
  train.steps: 96 / ${strategy.ranks} / ${batch.size_per_rank}
  data.sequence_length: ${model.config.max_position_embeddings}/16
points:
  - {name: one}
  - {name: two, strategy: {kind: ddp, ranks: 2}}
sweep: {product: {batch.size_per_rank: [3, 8]}}
)");
  REQUIRE(expansion.runs.size() == 4);
  CHECK(expansion.runs[0].spec.optimizer.learning_rate == 3e-4);
  CHECK(expansion.runs[1].spec.optimizer.learning_rate == 8e-4);
  CHECK(expansion.runs[0].spec.train.steps == 32);
  CHECK(expansion.runs[1].spec.train.steps == 12);
  CHECK(expansion.runs[3].spec.train.steps == 6);
  CHECK(expansion.runs[0].spec.data.sequence_length == 128);
}

TEST_CASE("a derived value can be large, and stands where any value stands") {
  CHECK(run_of("  train.steps: ${batch.size_per_rank} * 1000000\n").train.steps == 4'000'000);
  CHECK(run_of("  train: {seed: '${strategy.ranks} * 7'}\n").train.seed == 7);
  CHECK(run_of("", {.set = {"train.seed=${strategy.ranks} * 9"}}).train.seed == 9);
  const Expansion swept = expanded(
      "experiment: lab\nsweep:\n  product:\n    batch.size_per_rank: [2]\n"
      "    train.seed: [1, \"${batch.size_per_rank} * 10\"]\n");
  CHECK(names(swept) == Names{"lab size_per_rank=2 seed=1",
                              "lab size_per_rank=2 seed=${batch.size_per_rank} * 10"});
  CHECK(swept.runs[1].spec.train.seed == 20);
}

TEST_CASE("a reference alone may be to a name, a path or a truth value") {
  const RunSpec spec = run_of(
      "  data: {train: games.csv}\n  evaluation: {data: '${data.train}', every_steps: 1}\n"
      "  precision: {parameters: bf16, reduction: '${precision.parameters}'}\n"
      "  checkpoint: {at_end: '${data.shuffle}'}\n");
  CHECK(spec.evaluation.data == spec.data.train);
  CHECK(spec.precision.reduction == Dtype::kBf16);
  CHECK(spec.checkpoint.at_end);
}

TEST_CASE("a later layer that gives the key plainly wins, and so does one that gives it again") {
  const std::string text = kBase +
                           "  train.seed: ${batch.size_per_rank} * 10\n"
                           "points:\n  - {name: A}\n  - {name: B, train.seed: 5}\n"
                           "  - {name: C, train.seed: '${strategy.ranks} * 3'}\n";
  const auto seeds = [&](const ExpandOptions& options = {}) {
    std::vector<int64_t> seeds;
    for (const Run& run : expanded(text, options).runs) seeds.push_back(run.spec.train.seed);
    return seeds;
  };
  CHECK(seeds() == std::vector<int64_t>{40, 5, 3});
  CHECK(seeds({.set = {"batch.size_per_rank=2"}}) == std::vector<int64_t>{20, 5, 3});
  CHECK(seeds({.set = {"train.seed=1"}}) == std::vector<int64_t>{1, 1, 1});
}

TEST_CASE("an alternative in a later layer takes an expression away") {
  const RunSpec spec = expanded(kBase +
                                "  train.epochs: ${strategy.ranks}\n"
                                "points: [{name: A, train.steps: 7}]")
                           .runs.at(0)
                           .spec;
  CHECK(spec.train.steps == 7);
  CHECK(!spec.train.epochs);
  CHECK_THAT(message(kBase + "  train.epochs: ${strategy.ranks}\n  train.steps: 7\n"),
             Catch::StartsWith("lab.yaml:4:16: 'train.steps': excludes 'train.epochs'"));
}

TEST_CASE("exclude looks at derived values, and leaves out what has none") {
  CHECK(names(expanded(R"(
experiment: lab
base: {train.seed: '${batch.size_per_rank} / 2'}
sweep:
  product: {batch.size_per_rank: [2, 4, 5]}
  exclude: [{train.seed: 2}, {batch.size_per_rank: 5}]
)")) == Names{"lab size_per_rank=2"});
}

TEST_CASE("a run that --only leaves out may have an expression without a result") {
  const Expansion expansion = expanded(
      "experiment: lab\npoints:\n  - {name: A}\n  - {name: B, train.seed: '${train.epochs}'}\n",
      {.only = {"A"}});
  CHECK(names(expansion) == Names{"A"});
  CHECK(expansion.left_out.empty());
}

}  // namespace fsdp
