#include <catch2/catch.hpp>
#include <fstream>

#include "tests/end_to_end/stub_runs.h"

// Standard streams that are full, closed, or read by nobody.
using namespace fsdp;
using Catch::Matchers::Contains;

namespace {

// Runs the script in bash. `$run` is fsdp-run, and `$trainer` the stub trainer.
Ended in_shell(const Workplace& workplace, const std::string& script) {
  return Program(workplace / ".", {"/bin/bash", "-c", script},
                 {{"run", FSDP_RUN_PROGRAM}, {"trainer", STUB_TRAINER_PROGRAM}})
      .wait();
}

}  // namespace

TEST_CASE("what cannot be written to standard output is told, with exit status 1") {
  const Workplace workplace(kTwoPoints);
  for (const std::string command : {"--help", "report --help", "schema", "completion bash",
                                    "check experiment.yaml", "experiment.yaml --dry-run"}) {
    INFO(command);
    const Ended full = in_shell(workplace, "$run " + command + " > /dev/full");
    CHECK(full.status == 1);
    CHECK_THAT(full.errors, Contains("standard output cannot be written: No space left on device"));
    const Ended closed = in_shell(workplace, "$run " + command + " >&-");
    CHECK(closed.status == 1);
    CHECK_THAT(closed.errors, Contains("standard output cannot be written: Bad file descriptor"));
  }
}

TEST_CASE("a sweep whose output is full or closed runs all the same, and tells it") {
  for (const std::string output : {"> /dev/full", ">&-", "--json > /dev/full"}) {
    INFO(output);
    const Workplace workplace(kTwoPoints);
    const Ended ended = in_shell(workplace, "$run experiment.yaml --trainer $trainer " + output);
    CHECK(ended.status == 1);
    CHECK_THAT(ended.errors, Contains("standard output cannot be written"));
    for (const ComparisonRow& row : rows(workplace)) CHECK(row.status == RunStatus::kFinished);
  }
}

TEST_CASE("nobody reads a sweep's output to its end: it runs all the same, and says nothing") {
  const Workplace workplace(kTwoPoints);
  const Ended ended = in_shell(
      workplace, "$run experiment.yaml --trainer $trainer --json | head -1; exit ${PIPESTATUS[0]}");
  CHECK(ended.status == 0);
  CHECK(ended.errors.empty());
  for (const ComparisonRow& row : rows(workplace)) CHECK(row.status == RunStatus::kFinished);
}

TEST_CASE("no file of the results takes the place of a standard stream that is closed") {
  const Workplace workplace(kTwoPoints);
  const std::string closed = GENERATE("<&- >&- 2>&-", ">&-", "2>&-", ">&- 2>&-");
  CAPTURE(closed);
  in_shell(workplace, "$run experiment.yaml --trainer $trainer " + closed);
  int locks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(workplace.results())) {
    if (entry.path().extension() != ".lock") continue;
    ++locks;
    const std::string lock = text_of(entry.path());
    CHECK(lock.starts_with("process "));
    CHECK(lock.find('\n') == lock.size() - 1);
  }
  CHECK(locks == 1);
  for (const ComparisonRow& row : rows(workplace)) CHECK(row.status == RunStatus::kFinished);
}
