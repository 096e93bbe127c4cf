#include "runner/sweep/experiment_lock.h"

#include <catch2/catch.hpp>
#include <stdexcept>

#include "tests/runner/store/store_fixture.h"

using namespace fsdp;
using Catch::Matchers::Contains;

TEST_CASE("a runner that starts waits for a process that only asks Slurm about the jobs") {
  const ResultsFolder results;
  auto asking = ExperimentLock::for_a_moment(results.path(), "lab");
  REQUIRE(asking);
  std::vector<std::string> said;
  const ExperimentLock runner(results.path(), "lab", [&](const std::string& line) {
    said.push_back(line);
    asking.reset();
  });
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0], Contains("waits for process ") && Contains("asks Slurm about its jobs"));
  CHECK_FALSE(ExperimentLock::for_a_moment(results.path(), "lab"));
}

TEST_CASE("a runner that starts does not wait for another runner") {
  const ResultsFolder results;
  const auto say = [](const std::string& line) { FAIL(line); };
  const ExperimentLock first(results.path(), "lab", say);
  CHECK_THROWS_WITH(ExperimentLock(results.path(), "lab", say),
                    Contains("another fsdp-run (process ") && Contains("is at work on 'lab'"));
  const ExperimentLock other(results.path(), "other", say);
}
