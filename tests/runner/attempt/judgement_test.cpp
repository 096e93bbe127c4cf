#include "runner/attempt/judgement.h"

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

LaunchResult launch(LaunchOutcome outcome, std::string reason = "", int first_rank = -1) {
  return {.id = 1, .outcome = outcome, .reason = std::move(reason), .first_rank = first_rank};
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

Ending judge_in_job(Evidence evidence) {
  evidence.of_job = true;
  return judge(evidence);
}

RunStatus status_of(const Evidence& evidence) { return judge_in_job(evidence).status; }

// By the runner that started it.
Ending judge_here(const LaunchResult& seen, std::span<const RankEnd> ranks) {
  return judge({.ranks = ranks, .launch = seen});
}

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
                     .launch = launch(LaunchOutcome::kInterrupted),
                     .task = ended_task(state)}) == status);
  }
  CHECK(judge_in_job({.ranks = kSilent, .task = ended_task("OUT_OF_MEMORY")}).reason ==
        "the job's memory limit (slurm.mem) was reached, after step 3");
}

TEST_CASE("memory that runs of a job shared makes none of them one that does not fit") {
  const Ending killed = judge({.ranks = kSilent,
                               .of_job = true,
                               .task = ended_task("OUT_OF_MEMORY"),
                               .shared_memory = true});
  CHECK(killed.status == kFailed);
  CHECK_THAT(killed.reason, Catch::StartsWith("the job ended as OUT_OF_MEMORY, and rank 0 "));
  CHECK(judge({.ranks = kAsked,
               .launch = launch(LaunchOutcome::kInterrupted),
               .of_job = true,
               .task = ended_task("OUT_OF_MEMORY"),
               .shared_memory = true})
            .status == kInterrupted);
  CHECK(judge({.ranks = kRanOut,
               .of_job = true,
               .task = ended_task("OUT_OF_MEMORY"),
               .shared_memory = true})
            .status == kOutOfMemory);
}

TEST_CASE("a batch script that came to its end says how its ranks ended") {
  const auto outcome = [](const std::vector<RankEnd>& ranks, LaunchResult seen) {
    return judge_in_job({.ranks = ranks, .launch = std::move(seen), .task = ended_task("FAILED")});
  };
  CHECK(outcome(kBroke, launch(LaunchOutcome::kFailed, "srun exited with status 1")).reason ==
        "rank 0: disk full");
  CHECK(outcome(kSilent, launch(LaunchOutcome::kFailed, "srun exited with status 1")).reason ==
        "srun exited with status 1, after step 3");
  CHECK(outcome(kAsked, launch(LaunchOutcome::kTimeLimit)).status == kTimeLimit);
  CHECK(outcome(kAsked, launch(LaunchOutcome::kInterrupted)).status == kInterrupted);
}

TEST_CASE("a job that was requeued says by its last words why") {
  const auto status = [](const std::vector<RankEnd>& ranks, std::optional<LaunchResult> seen) {
    return status_of({.ranks = ranks, .launch = std::move(seen), .was_requeued = true});
  };
  CHECK(status(kAsked, launch(LaunchOutcome::kTimeLimit)) == kTimeLimit);
  CHECK(status(kAsked, launch(LaunchOutcome::kInterrupted)) == kPreempted);
  CHECK(status(kSilent, std::nullopt) == kNodeFailed);
  CHECK(status(kBroke, launch(LaunchOutcome::kFailed, "srun exited with status 1")) == kFailed);
  CHECK(status(kBroke, launch(LaunchOutcome::kNodeFailed, "a node of the job failed")) ==
        kNodeFailed);
}

TEST_CASE("what nobody knows is unknown, never finished or failed") {
  CHECK(status_of({.ranks = kSilent}) == kUnknown);
  CHECK(status_of({.ranks = kAsked}) == kUnknown);
  CHECK(judge_without_attempt(std::nullopt, "").status == kUnknown);
  SECTION("but what the ranks or the job itself wrote is known") {
    CHECK(status_of({.ranks = kBroke}) == kFailed);
    CHECK(status_of({.ranks = kSilent,
                     .launch = launch(LaunchOutcome::kFailed, "srun exited with status 1")}) ==
          kFailed);
    CHECK(status_of({.ranks = kAsked, .launch = launch(LaunchOutcome::kTimeLimit)}) == kTimeLimit);
  }
}

TEST_CASE("a task that ended before its run started") {
  CHECK(judge_without_attempt(ended_task("CANCELLED", ""), "").reason ==
        "the job was cancelled before the run started");
  CHECK(judge_without_attempt(ended_task("NODE_FAIL"), "").status == kNodeFailed);
  CHECK(judge_without_attempt(ended_task("OUT_OF_MEMORY"), "").status == kFailed);
  const Ending failed = judge_without_attempt(ended_task("FAILED"), "slurm/12.out");
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

TEST_CASE("a silent rank's signal is the reason, whatever the others say about its death") {
  const Ending outcome =
      judge_here(launch(LaunchOutcome::kFailed, "rank 1 killed by signal 9", 1),
                 std::vector{rank_end(0, Said::kFailed, 4, "connection reset"),
                             rank_end(1, Said::kNone), rank_end(2, Said::kInterrupted)});
  CHECK(outcome.status == RunStatus::kFailed);
  CHECK(outcome.reason == "rank 1 killed by signal 9, after step 3");
  CHECK(outcome.reason_rank == 1);
}

TEST_CASE("a rank that said why is believed") {
  const Ending outcome =
      judge_here(launch(LaunchOutcome::kFailed, "rank 0 exited with status 1", 0),
                 std::vector{rank_end(0, Said::kFailed, 1, "disk full"), rank_end(1, Said::kNone)});
  CHECK(outcome.status == RunStatus::kFailed);
  CHECK(outcome.reason == "rank 0: disk full");
}

TEST_CASE("one rank out of memory makes the run so, seen by either side") {
  const std::vector said{rank_end(0, Said::kFailed, 4, "connection reset"),
                         rank_end(1, Said::kFailed, 3, "needs 3 GiB")};
  CHECK(judge_here(launch(LaunchOutcome::kFailed, "rank 0 exited with status 4", 0), said).status ==
        RunStatus::kOutOfMemory);
  const std::vector silent{rank_end(0, Said::kNone), rank_end(1, Said::kNone)};
  CHECK(judge_here(launch(LaunchOutcome::kOutOfMemory, "rank 1 ran out of memory", 1), silent)
            .status == RunStatus::kOutOfMemory);
}

TEST_CASE("a run that was done when it was told to stop is finished") {
  const std::vector done{rank_end(0, Said::kFinished), rank_end(1, Said::kFinished)};
  for (const LaunchOutcome told : {LaunchOutcome::kInterrupted, LaunchOutcome::kTimeLimit}) {
    CHECK(judge_here(launch(told, "told"), done).status == RunStatus::kFinished);
  }
  const std::vector stopped{rank_end(0, Said::kInterrupted), rank_end(1, Said::kNone)};
  CHECK(judge_here(launch(LaunchOutcome::kInterrupted, "asked to stop"), stopped).status ==
        RunStatus::kInterrupted);
  CHECK(judge_here(launch(LaunchOutcome::kTimeLimit, "limit"), stopped).status ==
        RunStatus::kTimeLimit);
}

TEST_CASE("a node that went away is the reason, whatever the ranks on others say about it") {
  const std::vector broken{rank_end(0, Said::kFailed, 4, "connection reset"),
                           rank_end(1, Said::kNone)};
  const Ending outcome =
      judge_here(launch(LaunchOutcome::kNodeFailed, "a node of the job failed"), broken);
  CHECK(outcome.status == RunStatus::kNodeFailed);
  CHECK(outcome.reason == "a node of the job failed, after step 3");
  CHECK(outcome.reason_rank == -1);
}

TEST_CASE("exit status 0 alone does not make a run finished") {
  const Ending outcome =
      judge_here(launch(LaunchOutcome::kExited),
                 std::vector{rank_end(0, Said::kFinished), rank_end(1, Said::kNone)});
  CHECK(outcome.status == RunStatus::kFailed);
  CHECK(outcome.reason_rank == 1);
}

TEST_CASE("of an attempt whose runner was killed ranks say how it ended") {
  CHECK(judge({.ranks = kAllFinished}).status == kFinished);
  CHECK(judge({.ranks = kBroke}).reason == "rank 0: disk full");
  const Ending silent = judge({.ranks = kSilent});
  CHECK(silent.status == kInterrupted);
  CHECK(silent.reason == "the runner was killed; rank 0 ended without a last event, after step 3");
}

TEST_CASE("an attempt whose ranks could not be started says why, and no step") {
  const Ending ending = judge_here(launch(LaunchOutcome::kFailed, "no such program"), {});
  CHECK(ending.status == kFailed);
  CHECK(ending.reason == "no such program");
}
