#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "base/system/unix_time.h"
#include "runner/store/database.h"
#include "runner/store/store.h"
#include "tests/end_to_end/real_runs.h"

// Faults while fsdp-run drives the real trainer, caused by real limits and signals.
using namespace fsdp;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

constexpr int64_t kPromisedMs = 10'000;  // the most time from a fault to the end of the run

std::vector<ComparisonRow> rows(const Workplace& workplace) {
  return Store(workplace.results()).comparison("trial");
}

int64_t number(const Workplace& workplace, const std::string& query) {
  Database database(workplace.results() / "results.sqlite");
  return Statement(database, query).value<int64_t>().value();
}

int64_t ended_unix_ms(const Workplace& workplace, const ComparisonRow& row) {
  return number(workplace,
                "select ended_unix_ms from attempts where run = " + std::to_string(row.run) +
                    " and attempt = " + std::to_string(row.attempt.value()));
}

// The time at which the rank reported its failure.
int64_t failed_unix_ms(const std::filesystem::path& events_file) {
  const std::vector<Event> events = events_in(events_file);
  REQUIRE_FALSE(events.empty());
  REQUIRE(std::holds_alternative<RunFailed>(events.back().body));
  return events.back().time_unix_ms;
}

std::filesystem::path newest_attempt(const Workplace& workplace, const ComparisonRow& row) {
  return workplace.results() / row.folder / ("attempt-" + std::to_string(row.attempt.value()));
}

// Checks that every rank of the row's attempt has steps 1 to `steps` in SQLite, each once.
void check_every_step_is_there_once(const Workplace& workplace, const ComparisonRow& row,
                                    int64_t steps) {
  const std::string of_attempt = " from steps where run = " + std::to_string(row.run) +
                                 " and attempt = " + std::to_string(row.attempt.value());
  CHECK(number(workplace, "select count(*)" + of_attempt) == row.ranks * steps);
  CHECK(number(workplace, "select count(distinct rank * 1000000 + step)" + of_attempt) ==
        row.ranks * steps);
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
  CHECK_THAT(ended.output, Contains("out_of_memory"));
  const auto rank = static_cast<int>(found[0].reason_rank.value());
  const auto attempt = newest_attempt(workplace, found[0]);
  CHECK(ended_unix_ms(workplace, found[0]) - failed_unix_ms(events_file(attempt, rank)) <=
        kPromisedMs);
  CHECK_THAT(text_of(attempt / ("rank" + std::to_string(rank) + ".log")),
             Contains("CPU out of memory"));
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
  CHECK(ended.status == 0);
  CHECK(nobody_left_in(workplace));
  const std::vector<ComparisonRow> found = rows(workplace);
  REQUIRE(found.size() == 2);
  CHECK(found[0].status == RunStatus::kOutOfMemory);
  CHECK_THAT(found[0].reason, StartsWith("rank 1: CPU out of memory. Tried to allocate ") &&
                                  Contains("the system refused"));
  CHECK(found[0].reason_rank == 1);
  CHECK(ended_unix_ms(workplace, found[0]) -
            failed_unix_ms(events_file(newest_attempt(workplace, found[0]), 1)) <=
        kPromisedMs);
  CHECK(found[1].status == RunStatus::kFinished);  // fits under the same limit
}
#endif

TEST_CASE("a rank killed by signal 9 fails its run, and the next one runs") {
  const Workplace workplace(
      "  - {name: killed, strategy: {kind: fsdp, ranks: 4}, train.steps: 1000000}\n" + kSmallPoint,
      kTinyRun, FSDP_TRAIN_PROGRAM);
  Program runner = start(workplace);
  const auto attempt = attempt_folder(workplace, "killed", 1);
  wait_for_step(events_file(attempt, 2), 3);
  const auto started = std::get<RunStarted>(events_in(events_file(attempt, 2)).front().body);
  REQUIRE(kill(static_cast<pid_t>(started.process_id), SIGKILL) == 0);
  const int64_t killed_unix_ms = now_unix_ms();

  const Ended ended = runner.wait();
  INFO(ended.errors);
  CHECK(ended.status == 1);
  CHECK(nobody_left_in(workplace));
  const std::vector<ComparisonRow> found = rows(workplace);
  REQUIRE(found.size() == 2);
  CHECK(found[0].status == RunStatus::kFailed);
  CHECK_THAT(found[0].reason, StartsWith("rank 2 killed by signal 9"));
  CHECK(found[0].reason_rank == 2);
  CHECK(found[0].steps.value() >= 3);
  CHECK(ended_unix_ms(workplace, found[0]) - killed_unix_ms <= kPromisedMs);
  const std::string log = (found[0].folder / "attempt-1/rank2.log").string();
  CHECK_THAT(ended.errors, Contains(log));
  CHECK_THAT(ended.output, Contains("rank 2 killed by signal 9") && Contains(log));
  CHECK(found[1].status == RunStatus::kFinished);
}

TEST_CASE("a runner killed by signal 9 at any moment loses nothing and repeats nothing") {
  const Workplace workplace(
      "  - {name: first, strategy: {kind: ddp, ranks: 2}, train.steps: 150}\n"
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
  const std::vector<int64_t> steps{150, 5, 5};
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

TEST_CASE("Ctrl-C keeps what was measured, and a second call runs to the end") {
  const Workplace workplace(
      "  - {name: first, strategy: {kind: ddp, ranks: 2}, train.steps: 150}\n" + kSmallPoint,
      kTinyRun, FSDP_TRAIN_PROGRAM);
  Program runner = start(workplace);
  const auto attempt = attempt_folder(workplace, "first", 1);
  wait_for_step(events_file(attempt, 1), 3);
  runner.send(SIGINT);
  const Ended ended = runner.wait();
  INFO(ended.errors);
  CHECK(ended.status == 130);
  CHECK(nobody_left_in(workplace));
  CHECK_THAT(ended.output, Contains("interrupted"));
  ComparisonRow first = rows(workplace).at(0);
  CHECK(first.status == RunStatus::kInterrupted);
  const std::vector<Event> events = events_in(events_file(attempt, 0));
  REQUIRE(std::holds_alternative<RunInterrupted>(events.back().body));
  const int64_t steps = std::get<RunInterrupted>(events.back().body).step;
  CHECK(steps >= 3);
  check_every_step_is_there_once(workplace, first, steps);
  CHECK(rows(workplace).at(1).status == RunStatus::kPlanned);

  CHECK(workplace.run().status == 0);
  first = rows(workplace).at(0);
  CHECK(first.status == RunStatus::kFinished);
  CHECK(first.attempt == 2);
  check_every_step_is_there_once(workplace, first, 150);
  CHECK(rows(workplace).at(1).status == RunStatus::kFinished);
}

TEST_CASE("a second call of a finished sweep only prints its table; --rerun measures again") {
  const Workplace workplace("  - {name: one}\n" + kSmallPoint, kTinyRun, FSDP_TRAIN_PROGRAM);
  const Ended first = workplace.run();
  CHECK(first.status == 0);
  const Ended second = workplace.run();
  CHECK(second.status == 0);
  CHECK(second.output == first.output);
  CHECK_THAT(second.errors, !Contains("started"));
  CHECK(number(workplace, "select count(*) from attempts") == 2);

  CHECK(workplace.run({"experiment.yaml", "--rerun"}).status == 0);
  const std::vector<ComparisonRow> found = rows(workplace);
  REQUIRE(found.size() == 2);
  for (const ComparisonRow& row : found) {
    CHECK(row.attempt == 2);
    CHECK(row.status == RunStatus::kFinished);
    check_every_step_is_there_once(workplace, row, 5);
  }
  CHECK(number(workplace, "select count(*) from steps") == 2 * (1 + 2) * 5);
}
