#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "runner/store/database.h"
#include "runner/store/store.h"
#include "tests/end_to_end/real_runs.h"

// Faults while fsdp-run drives the real trainer, caused by real limits and signals.
using namespace fsdp;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

std::vector<ComparisonRow> rows(const Workplace& workplace) {
  return Store(workplace.results()).comparison("trial");
}

int64_t number(const Workplace& workplace, const std::string& query) {
  Database database(workplace.results() / "results.sqlite");
  return Statement(database, query).value<int64_t>().value();
}

// Checks that every rank of the row's attempt has steps 1 to `steps` in SQLite, each once.
void check_every_step_is_there_once(const Workplace& workplace, const ComparisonRow& row,
                                    int64_t steps) {
  const std::string of_attempt = " from steps where run = " + std::to_string(row.run) +
                                 " and attempt = " + std::to_string(row.attempt.value());
  CHECK(number(workplace, "select count(*)" + of_attempt) == row.spec.strategy.ranks * steps);
  CHECK(number(workplace, "select count(distinct rank * 1000000 + step)" + of_attempt) ==
        row.spec.strategy.ranks * steps);
  CHECK(number(workplace, "select max(step)" + of_attempt) == steps);
}

Program start(const Workplace& workplace) {
  return Program(workplace / ".", workplace.command({"experiment.yaml"}));
}

const std::string kSmallPoint = "  - {name: small, strategy: {kind: ddp, ranks: 2}}\n";

}  // namespace

TEST_CASE("a run over its memory limit is a result, and the next one runs") {
  const Workplace workplace(
      "  - name: large\n"
      "    strategy: {kind: fsdp, ranks: 2}\n"
      "    batch.size_per_rank: 32\n"
      "    data.sequence_length: 256\n"
      "    memory_limit_gib: 0.0078125\n" +
          kSmallPoint,
      kTinyRun, FSDP_TRAIN_PROGRAM);
  const Ended ended = workplace.run();
  INFO(ended.errors);
  CHECK(ended.status == 0);
  CHECK(nobody_left_in(workplace));
  const std::vector<ComparisonRow> found = rows(workplace);
  REQUIRE(found.size() == 2);
  CHECK(found[0].status == RunStatus::kOutOfMemory);
  CHECK_THAT(found[0].reason, StartsWith("rank ") &&
                                  Contains(": CPU out of memory. Tried to allocate ") &&
                                  Contains(" MiB; limit 8.00 MiB, "));
  CHECK_THAT(ended.output, Contains("large does not fit in 0.00781 GiB"));
  const std::string log = "attempt-1/rank" + std::to_string(found[0].reason_rank.value()) + ".log";
  CHECK_THAT(text_of(workplace.results() / found[0].folder / log), Contains("CPU out of memory"));
  CHECK(found[1].status == RunStatus::kFinished);

  CHECK_THAT(workplace.run().errors, Contains("2 runs with a result already"));
  CHECK(rows(workplace)[0].attempt == 1);
}

#ifndef __SANITIZE_ADDRESS__  // the sanitizer's own memory would exceed the limit
TEST_CASE("one rank that the system refuses memory ends the run of all") {
  const std::string large =
      "  - name: large\n"
      "    strategy: {kind: ddp, ranks: 3}\n"
      "    batch.size_per_rank: 96\n"
      "    data.sequence_length: 512\n";
  const Workplace workplace(large + "  - {name: small, strategy: {kind: ddp, ranks: 3}}\n",
                            kTinyRun, "./limited");
  std::ofstream(workplace / "limited") << "#!/bin/sh\n"
                                          "if [ \"$RANK\" = 1 ]; then ulimit -d 163840; fi\n"
                                          "exec " FSDP_TRAIN_PROGRAM " \"$@\"\n";
  std::filesystem::permissions(workplace / "limited", std::filesystem::perms::owner_all);
  const Ended ended = workplace.run();
  INFO(ended.errors);
  CHECK(ended.status == 1);
  CHECK(nobody_left_in(workplace));
  const std::vector<ComparisonRow> found = rows(workplace);
  REQUIRE(found.size() == 2);
  CHECK(found[0].status == RunStatus::kOutOfHostMemory);
  CHECK_THAT(found[0].reason, StartsWith("rank 1: CPU out of memory. Tried to allocate ") &&
                                  Contains("the system refused"));
  CHECK(found[0].reason_rank == 1);
  CHECK(found[1].status == RunStatus::kFinished);  // fits under the same limit
}
#endif

TEST_CASE("a runner killed by signal 9 at any moment loses nothing and repeats nothing") {
  const Workplace workplace(
      "  - {name: first, strategy: {kind: ddp, ranks: 2}, train.steps: 1000}\n"
      "  - {name: second, strategy: {kind: fsdp, ranks: 2}}\n"
      "  - {name: third}\n",
      kTinyRun, FSDP_TRAIN_PROGRAM);
  const auto kill_it = [&](Program& runner) {
    runner.send(SIGKILL);
    CHECK(runner.wait().status == 128 + SIGKILL);
    CHECK(nobody_left_in(workplace));
  };
  {
    Program runner = start(workplace);  // killed while the ranks start
    wait_for_file(attempt_folder(workplace, "first", 1) / "rank1.log");
    kill_it(runner);
  }
  {
    Program runner = start(workplace);  // killed in the middle of a run
    wait_for_step(events_file(attempt_folder(workplace, "first", 2), 0), 3);
    kill_it(runner);
  }
  {
    Program runner = start(workplace);  // killed after a run's end, before it has seen the end
    const auto attempt = attempt_folder(workplace, "first", 3);
    wait_for_step(events_file(attempt, 1), 1);
    runner.send(SIGSTOP);
    for (const int rank : {0, 1}) wait_for_the_end(events_file(attempt, rank));
    kill_it(runner);
  }
  {
    Program runner = start(workplace);  // killed after it has reported a run's end
    runner.wait_for_error_text("second: finished");
    kill_it(runner);
  }
  const Ended ended = workplace.run();
  INFO(ended.errors);
  CHECK(ended.status == 0);
  CHECK(nobody_left_in(workplace));

  const std::vector<ComparisonRow> found = rows(workplace);
  REQUIRE(found.size() == 3);
  const std::vector<int64_t> steps{1000, 5, 5};
  for (size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].point == std::vector<std::string>{"first", "second", "third"}[i]);
    CHECK(found[i].status == RunStatus::kFinished);
    check_every_step_is_there_once(workplace, found[i], steps[i]);
  }
  CHECK(found[0].attempt == 3);  // attempt 3 finished: no other attempt follows
  CHECK(found[1].attempt == 1);
  CHECK(number(workplace, "select count(*) from attempts where status = 'finished'") == 3);
  CHECK(number(workplace,
               "select count(*) from attempts where status not in "
               "('finished', 'interrupted')") == 0);
}
