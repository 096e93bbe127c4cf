#include "runner/sweep/job_outcome.h"

#include <catch2/catch.hpp>

using namespace fsdp;

namespace {

RankEnd rank_end(int rank, RankEndKind kind, int64_t exit_code = 0, std::string reason = "") {
  RankEnd end;
  end.rank = rank;
  end.kind = kind;
  end.exit_code = exit_code;
  end.reason = std::move(reason);
  end.last_step = 3;
  end.last_event_unix_ms = 1000 + rank;
  return end;
}

JobAttemptEnd end_record(LaunchOutcome outcome, std::string reason = "") {
  JobAttemptEnd end;
  end.outcome = outcome;
  end.reason = std::move(reason);
  return end;
}

TaskState ended_task(std::string state, std::string nodes = "n1") {
  return {.job = "12_3",
          .phase = TaskPhase::kEnded,
          .state = std::move(state),
          .reason = "",
          .node_list = std::move(nodes)};
}

using Said = RankEndKind;
using enum RunStatus;

const std::vector kAllFinished{rank_end(0, Said::kFinished), rank_end(1, Said::kFinished)};
const std::vector kRanOut{rank_end(0, Said::kFailed, 3, "needs 3 GiB"), rank_end(1, Said::kNone)};
const std::vector kBroke{rank_end(0, Said::kFailed, 1, "disk full"), rank_end(1, Said::kNone)};
const std::vector kAsked{rank_end(0, Said::kInterrupted), rank_end(1, Said::kInterrupted)};
const std::vector kSilent{rank_end(0, Said::kNone), rank_end(1, Said::kNone)};

RunStatus status_of(const JobAttemptFacts& facts) { return job_attempt_outcome(facts).status; }

}  // namespace

TEST_CASE("a result that ranks reported outranks whatever became of the job") {
  for (const char* state :
       {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"}) {
    INFO(state);
    CHECK(status_of({.ranks = kAllFinished, .task = ended_task(state)}) == kFinished);
    CHECK(status_of({.ranks = kRanOut, .task = ended_task(state)}) == kOutOfMemory);
  }
  CHECK(status_of({.ranks = kAllFinished, .was_requeued = true}) == kFinished);
  CHECK(status_of({.ranks = kAllFinished}) == kFinished);
}

TEST_CASE("what Slurm says of a task decides where ranks have no result") {
  const std::vector<std::pair<std::string, RunStatus>> expected{
      {"OUT_OF_MEMORY", kOutOfMemory}, {"TIMEOUT", kTimeLimit},    {"DEADLINE", kTimeLimit},
      {"PREEMPTED", kPreempted},       {"NODE_FAIL", kNodeFailed}, {"BOOT_FAIL", kNodeFailed},
      {"CANCELLED", kCancelled}};
  for (const auto& [state, status] : expected) {
    INFO(state);
    CHECK(status_of({.ranks = kSilent, .task = ended_task(state)}) == status);
    CHECK(status_of({.ranks = kAsked,
                     .end = end_record(LaunchOutcome::kInterrupted),
                     .task = ended_task(state)}) == status);
  }
  CHECK(job_attempt_outcome({.ranks = kSilent, .task = ended_task("OUT_OF_MEMORY")}).reason ==
        "the job's memory limit (slurm.mem) was reached, after step 3");
}

TEST_CASE("a batch script that came to its end says how its ranks ended") {
  const auto outcome = [](const std::vector<RankEnd>& ranks, JobAttemptEnd end) {
    return job_attempt_outcome(
        {.ranks = ranks, .end = std::move(end), .task = ended_task("FAILED")});
  };
  CHECK(outcome(kBroke, end_record(LaunchOutcome::kFailed, "srun exited with status 1")).reason ==
        "rank 0: disk full");
  CHECK(outcome(kSilent, end_record(LaunchOutcome::kFailed, "srun exited with status 1")).reason ==
        "srun exited with status 1, after step 3");
  CHECK(outcome(kAsked, end_record(LaunchOutcome::kTimeLimit)).status == kTimeLimit);
  CHECK(outcome(kAsked, end_record(LaunchOutcome::kInterrupted)).status == kInterrupted);
}

TEST_CASE("a job that was requeued says by its last words why") {
  const auto status = [](const std::vector<RankEnd>& ranks, std::optional<JobAttemptEnd> end) {
    return status_of({.ranks = ranks, .end = std::move(end), .was_requeued = true});
  };
  CHECK(status(kAsked, end_record(LaunchOutcome::kTimeLimit)) == kTimeLimit);
  CHECK(status(kAsked, end_record(LaunchOutcome::kInterrupted)) == kPreempted);
  CHECK(status(kSilent, std::nullopt) == kNodeFailed);
  CHECK(status(kBroke, end_record(LaunchOutcome::kFailed, "srun exited with status 1")) == kFailed);
  CHECK(status(kBroke, end_record(LaunchOutcome::kNodeFailed, "a node of the job failed")) ==
        kNodeFailed);
}

TEST_CASE("what nobody knows is unknown, never finished or failed") {
  CHECK(status_of({.ranks = kSilent}) == kUnknown);
  CHECK(status_of({.ranks = kAsked}) == kUnknown);
  CHECK(outcome_without_attempt(std::nullopt, "").status == kUnknown);
  SECTION("but what the ranks or the job itself wrote is known") {
    CHECK(status_of({.ranks = kBroke}) == kFailed);
    CHECK(status_of({.ranks = kSilent,
                     .end = end_record(LaunchOutcome::kFailed, "srun exited with status 1")}) ==
          kFailed);
    CHECK(status_of({.ranks = kAsked, .end = end_record(LaunchOutcome::kTimeLimit)}) == kTimeLimit);
  }
}

TEST_CASE("a task that ended before its run started") {
  CHECK(never_started(ended_task("CANCELLED", "")));
  CHECK_FALSE(never_started(ended_task("FAILED", "n1")));
  CHECK_FALSE(never_started(std::nullopt));
  CHECK(outcome_without_attempt(ended_task("CANCELLED", ""), "").reason ==
        "the job was cancelled before the run started");
  CHECK(outcome_without_attempt(ended_task("NODE_FAIL"), "").status == kNodeFailed);
  const AttemptOutcome failed = outcome_without_attempt(ended_task("FAILED"), "slurm/12.out");
  CHECK(failed.status == kFailed);
  CHECK_THAT(failed.reason, Catch::Contains("slurm/12.out"));
}

TEST_CASE("only what the cluster ended is started again, and not for ever") {
  for (const RunStatus status : {kPreempted, kNodeFailed}) {
    CHECK(is_to_restart(status, 1, 3, false));
    CHECK(is_to_restart(status, 3, 3, true));
    CHECK_FALSE(is_to_restart(status, 4, 3, true));
    CHECK_FALSE(is_to_restart(status, 1, 0, true));
  }
  CHECK(is_to_restart(kTimeLimit, 1, 3, true));
  CHECK_FALSE(is_to_restart(kTimeLimit, 1, 3, false));
  for (const RunStatus status :
       {kFinished, kFailed, kOutOfMemory, kCancelled, kUnknown, kInterrupted})
    CHECK_FALSE(is_to_restart(status, 1, 3, true));
}

TEST_CASE("files are waited for until every rank has spoken") {
  CHECK(ranks_have_spoken(kAllFinished));
  CHECK(ranks_have_spoken(kAsked));
  CHECK(ranks_have_spoken(kRanOut));
  CHECK_FALSE(ranks_have_spoken(kBroke));
  CHECK_FALSE(ranks_have_spoken(kSilent));
}
