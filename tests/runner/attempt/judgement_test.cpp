#include "runner/run/judgement.h"

#include <catch2/catch.hpp>

#include "contract/record/host_memory.h"

using namespace fsdp;

namespace {

RankState rank_end(int rank, RankEndKind kind, int64_t exit_code = 0, std::string reason = "") {
  RankState end;
  end.rank = rank;
  end.kind = kind;
  end.exit_code = exit_code;
  end.reason = std::move(reason);
  end.last_step = 3;
  end.last_event_unix_ms = 1000 + rank;
  return end;
}

AttemptEnd launch(LaunchOutcome outcome, std::string reason = "", int first_rank = -1) {
  return {.run = 1, .outcome = outcome, .reason = std::move(reason), .first_rank = first_rank};
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

// An attempt in a job. By default nobody saw its processes end.
AttemptEnd in_job(std::optional<TaskState> task, AttemptEnd end = launch(LaunchOutcome::kUnseen)) {
  end.in_job = true;
  end.task = std::move(task);
  return end;
}

AttemptEnd requeued(AttemptEnd end = launch(LaunchOutcome::kUnseen)) {
  end.in_job = end.was_requeued = true;
  return end;
}

// Judges as the runner that started the attempt.
Verdict judge_here(const AttemptEnd& seen, std::span<const RankState> ranks) {
  return judge(ranks, seen);
}

}  // namespace

TEST_CASE("a result that ranks reported outranks whatever became of the job") {
  for (const char* state :
       {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"}) {
    INFO(state);
    CHECK(judge(kAllFinished, in_job(ended_task(state))).status == kFinished);
    CHECK(judge(kRanOut, in_job(ended_task(state))).status == kOutOfMemory);
  }
  CHECK(judge(kAllFinished, requeued()).status == kFinished);
  CHECK(judge(kAllFinished, in_job(std::nullopt)).status == kFinished);
}

TEST_CASE("what Slurm says of a task decides where ranks have no result") {
  const std::vector<std::pair<std::string, RunStatus>> expected{{"OUT_OF_MEMORY", kOutOfHostMemory},
                                                                {"TIMEOUT", kTimeLimit},
                                                                {"DEADLINE", kTimeLimit},
                                                                {"PREEMPTED", kPreempted},
                                                                {"NODE_FAIL", kNodeFailed},
                                                                {"BOOT_FAIL", kNodeFailed},
                                                                {"CANCELLED", kCancelled}};
  for (const auto& [state, status] : expected) {
    INFO(state);
    CHECK(judge(kSilent, in_job(ended_task(state))).status == status);
    CHECK(judge(kAsked, in_job(ended_task(state), launch(LaunchOutcome::kInterrupted))).status ==
          status);
  }
  CHECK(judge(kSilent, in_job(ended_task("OUT_OF_MEMORY"))).reason ==
        "the job's memory limit (slurm.mem) was reached, after step 3; raise slurm.mem");
}

TEST_CASE("memory of the host that ran out is no answer about what fits") {
  const auto said = [](std::string_view words) {
    return std::vector{rank_end(0, Said::kFailed, 3, "limit " + std::string(words) + ", 1 MiB"),
                       rank_end(1, Said::kNone)};
  };
  for (const std::string_view words : {kNoHostMemory, kRefusedBySystem, kCgroupLimit}) {
    INFO(words);
    const Verdict here = judge(said(words), launch(LaunchOutcome::kOutOfMemory, "rank 0 ...", 0));
    CHECK(here.status == kOutOfHostMemory);
    CHECK_FALSE(here.is_result());
    CHECK_THAT(here.reason, Catch::EndsWith(", 1 MiB"));
    CHECK_THAT(judge(said(words), in_job(ended_task("FAILED"))).reason,
               Catch::EndsWith(", 1 MiB; raise slurm.mem"));
  }
  const AttemptEnd seen = launch(LaunchOutcome::kOutOfMemory, std::string(kSlurmLimitReached));
  CHECK(judge(kSilent, in_job(ended_task("FAILED"), seen)).status == kOutOfHostMemory);
  CHECK(judge(said("5 MiB"), in_job(ended_task("FAILED"), seen)).status == kOutOfMemory);
}

TEST_CASE("a batch script that came to its end says how its ranks ended") {
  const auto outcome = [](const std::vector<RankState>& ranks, const AttemptEnd& seen) {
    return judge(ranks, in_job(ended_task("FAILED"), seen));
  };
  CHECK(outcome(kBroke, launch(LaunchOutcome::kFailed, "srun exited with status 1")).reason ==
        "rank 0: disk full");
  CHECK(outcome(kSilent, launch(LaunchOutcome::kFailed, "srun exited with status 1")).reason ==
        "srun exited with status 1, after step 3");
  CHECK(outcome(kAsked, launch(LaunchOutcome::kTimeLimit)).status == kTimeLimit);
  CHECK(outcome(kAsked, launch(LaunchOutcome::kInterrupted)).status == kInterrupted);
}

TEST_CASE("a job that was requeued says by its last words why") {
  const auto status = [](const std::vector<RankState>& ranks, const AttemptEnd& seen) {
    return judge(ranks, requeued(seen)).status;
  };
  CHECK(status(kAsked, launch(LaunchOutcome::kTimeLimit)) == kTimeLimit);
  CHECK(status(kAsked, launch(LaunchOutcome::kInterrupted)) == kPreempted);
  CHECK_THAT(judge(kAsked, requeued(launch(LaunchOutcome::kInterrupted))).reason,
             Catch::StartsWith("the job was requeued, "));
  CHECK(status(kSilent, launch(LaunchOutcome::kUnseen)) == kNodeFailed);
  CHECK(status(kBroke, launch(LaunchOutcome::kFailed, "srun exited with status 1")) == kFailed);
  CHECK(status(kBroke, launch(LaunchOutcome::kNodeFailed, "a node of the job failed")) ==
        kNodeFailed);
}

TEST_CASE("what nobody knows is unknown, never finished or failed") {
  CHECK(judge(kSilent, in_job(std::nullopt)).status == kUnknown);
  CHECK(judge(kAsked, in_job(std::nullopt)).status == kUnknown);
  CHECK(judge_without_attempt(std::nullopt, "").status == kUnknown);
  SECTION("but what the ranks or the job itself wrote is known") {
    CHECK(judge(kBroke, in_job(std::nullopt)).status == kFailed);
    const AttemptEnd failed = launch(LaunchOutcome::kFailed, "srun exited with status 1");
    CHECK(judge(kSilent, in_job(std::nullopt, failed)).status == kFailed);
    const AttemptEnd at_limit = launch(LaunchOutcome::kTimeLimit);
    CHECK(judge(kAsked, in_job(std::nullopt, at_limit)).status == kTimeLimit);
  }
}

TEST_CASE("a task that ended before its run started") {
  CHECK(judge_without_attempt(ended_task("CANCELLED", ""), "").reason ==
        "the job was cancelled before the run started");
  CHECK(judge_without_attempt(ended_task("NODE_FAIL"), "").status == kNodeFailed);
  CHECK(judge_without_attempt(ended_task("OUT_OF_MEMORY"), "").status == kOutOfHostMemory);
  const Verdict failed = judge_without_attempt(ended_task("FAILED"), "slurm/12.out");
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

TEST_CASE("a new checkpoint begins the count of restarts anew, the same steps again do not") {
  EndedAttempts ended;
  for (int attempt = 1; attempt <= 3; ++attempt) {
    ended.add(kTimeLimit, 4'000);
    CHECK(ended.in_a_row == attempt);
  }
  ended.add(kPreempted, 4'001);
  CHECK(ended.in_a_row == 1);
  ended.add(kFailed, 4'002);
  CHECK(ended.in_a_row == 0);
}

TEST_CASE("files are waited for until every rank has spoken") {
  CHECK(reports_decide(kAllFinished));
  CHECK(reports_decide(kAsked));
  CHECK(reports_decide(kRanOut));
  CHECK_FALSE(reports_decide(kBroke));
  CHECK_FALSE(reports_decide(kSilent));
}

TEST_CASE("a silent rank's signal is the reason, whatever the others say about its death") {
  const Verdict outcome =
      judge_here(launch(LaunchOutcome::kFailed, "rank 1 killed by signal 9", 1),
                 std::vector{rank_end(0, Said::kFailed, 4, "connection reset"),
                             rank_end(1, Said::kNone), rank_end(2, Said::kInterrupted)});
  CHECK(outcome.status == RunStatus::kFailed);
  CHECK(outcome.reason == "rank 1 killed by signal 9, after step 3");
  CHECK(outcome.reason_rank == 1);
}

TEST_CASE("a rank that said why is believed") {
  const Verdict outcome =
      judge_here(launch(LaunchOutcome::kFailed, "rank 0 exited with status 1", 0),
                 std::vector{rank_end(0, Said::kFailed, 1, "disk full"), rank_end(1, Said::kNone)});
  CHECK(outcome.status == RunStatus::kFailed);
  CHECK(outcome.reason == "rank 0: disk full");
}

TEST_CASE("of ranks that failed the one that said so first is believed") {
  std::vector failed{rank_end(0, Said::kFailed, 1, "last"), rank_end(1, Said::kFailed, 1, "first"),
                     rank_end(2, Said::kFailed, 1, "second")};
  failed[0].last_event_unix_ms = 9'000;
  CHECK(judge(failed, AttemptEnd()).reason == "rank 1: first");
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
  const Verdict outcome =
      judge_here(launch(LaunchOutcome::kNodeFailed, "a node of the job failed"), broken);
  CHECK(outcome.status == RunStatus::kNodeFailed);
  CHECK(outcome.reason == "a node of the job failed, after step 3");
  CHECK(outcome.reason_rank == -1);
}

TEST_CASE("exit status 0 alone does not make a run finished") {
  const Verdict outcome =
      judge_here(launch(LaunchOutcome::kExited),
                 std::vector{rank_end(0, Said::kFinished), rank_end(1, Said::kNone)});
  CHECK(outcome.status == RunStatus::kFailed);
  CHECK(outcome.reason_rank == 1);
}

TEST_CASE("of an attempt whose runner was killed ranks say how it ended") {
  CHECK(judge(kAllFinished, AttemptEnd()).status == kFinished);
  CHECK(judge(kBroke, AttemptEnd()).reason == "rank 0: disk full");
  const Verdict silent = judge(kSilent, AttemptEnd());
  CHECK(silent.status == kInterrupted);
  CHECK(silent.reason == "the runner was killed; rank 0 ended without reporting why, after step 3");
}

TEST_CASE("an attempt whose ranks could not be started says why, and no step") {
  const Verdict ending = judge_here(launch(LaunchOutcome::kNotStarted, "no such program"), kSilent);
  CHECK(ending.status == kFailed);
  CHECK(ending.reason == "no such program");
}
