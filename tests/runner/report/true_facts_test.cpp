#include "tests/runner/report/true_facts.h"

// Compares facts about made-up experiments with the truth.
namespace fsdp {
namespace {

SeriesRows pointers_to(const std::deque<Series>& all) {
  return mapped(all, [](const Series& row) { return &row; });
}

TEST_CASE("no fact about made-up experiments is false") {
  constexpr int kExperiments = 1'000;
  int winners = 0, wrong = 0;
  for (int seed = 0; seed < kExperiments; ++seed) {
    const MadeUpExperiment made = ExperimentMaker(static_cast<uint64_t>(seed)).make();
    std::deque<Series> all = series_of(made.runs);
    put_baselines(all, "");
    const SeriesRows rows = pointers_to(all);
    const SpeedFacts speed = speed_facts(rows);
    TrueFacts truth(made, all);
    INFO("seed " << seed);
    CHECK_NOTHROW(truth.check(memory_facts(rows)));
    CHECK_NOTHROW(truth.check(speed));
    CHECK_NOTHROW(truth.check(loss_facts(rows)));
    winners += speed.fastest.size() == 1 ? 1 : 0;
    wrong += truth.is_wrong() ? 1 : 0;
  }
  CAPTURE(wrong, winners);
  CHECK(wrong <= kExperiments / 20);
  CHECK(winners >= kExperiments / 10);
}

// Makes 200 experiments whose rows are equally fast. Returns how many have a row that is slower
// than the fastest.
int false_differences(size_t rows, int64_t repeats, int noise_shape) {
  int found = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const ComparisonRows runs = ExperimentMaker(seed).equal_rows(rows, repeats, noise_shape);
    const std::deque<Series> all = series_of(runs);
    const SpeedFacts facts = speed_facts(pointers_to(all));
    REQUIRE(facts.ranked.size() == rows);
    found += facts.fastest.size() < rows ? 1 : 0;
  }
  return found;
}

TEST_CASE("of 2 to 30 equal rows none is called slower in 95 % of reports") {
  for (const size_t rows : {2u, 10u, 30u}) {
    for (const int64_t repeats : {1, 3, 5, 10}) {
      for (const int noise_shape : {0, 1, 2, 3}) {
        CAPTURE(rows, repeats, noise_shape);
        CHECK(false_differences(rows, repeats, noise_shape) <= 10);
      }
    }
  }
}

}  // namespace
}  // namespace fsdp
