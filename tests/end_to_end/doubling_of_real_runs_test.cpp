#include <catch2/catch.hpp>

#include "runner/store/store.h"
#include "tests/end_to_end/real_runs.h"

// Doubles a key with the real trainer, whose allocator has a limit.
using namespace fsdp;
using Catch::Matchers::Contains;

namespace {

std::map<int64_t, RunStatus> status_of_batches(const Workplace& workplace,
                                               const std::string& experiment) {
  std::map<int64_t, RunStatus> statuses;
  for (const ComparisonRow& row : Store(workplace.results()).comparison(experiment)) {
    statuses[row.batch_size_per_rank] = row.status;
  }
  return statuses;
}

}  // namespace

TEST_CASE("the largest batch that doubling finds is exactly the largest that fits") {
  const std::string limit = ", memory_limit_gib: 0.002";
  const std::string base = kTinyRun.substr(0, kTinyRun.size() - 1) + limit + "}";
  const std::string point = "  - {name: FSDP, train.steps: 2, strategy: {kind: fsdp, ranks: 2}}\n";
  const Workplace workplace(
      point + "sweep: {double: {batch.size_per_rank: {from: 4, refine: true}}}\n", base,
      FSDP_TRAIN_PROGRAM);
  const Ended found = workplace.run();
  INFO(found.output + found.errors);
  REQUIRE(found.status == 0);
  int64_t largest = 0;
  int64_t smallest_that_does_not_fit = 1000;
  for (const auto& [batch, status] : status_of_batches(workplace, "trial")) {
    if (status == RunStatus::kFinished) largest = std::max(largest, batch);
    if (status == RunStatus::kOutOfMemory) {
      smallest_that_does_not_fit = std::min(smallest_that_does_not_fit, batch);
    }
  }
  REQUIRE(largest >= 4);
  CHECK(smallest_that_does_not_fit == largest + 1);
  CHECK_THAT(found.output,
             Contains("largest batch.size_per_rank that fits: " + std::to_string(largest) +
                      " for FSDP (" + std::to_string(largest + 1) + " does not)"));
}
