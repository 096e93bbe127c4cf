#include "runner/sweep/attempt_outcome.h"

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

using End = RankEndKind;

}  // namespace

TEST_CASE("a silent rank's signal is the reason, whatever the others say about its death") {
  const AttemptOutcome outcome =
      attempt_outcome(launch(LaunchOutcome::kFailed, "rank 1 killed by signal 9", 1),
                      std::vector{rank_end(0, End::kFailed, 4, "connection reset"),
                                  rank_end(1, End::kNone), rank_end(2, End::kInterrupted)});
  CHECK(outcome.status == RunStatus::kFailed);
  CHECK(outcome.reason == "rank 1 killed by signal 9, after step 3");
  CHECK(outcome.reason_rank == 1);
}

TEST_CASE("a rank that said why is believed") {
  const AttemptOutcome outcome = attempt_outcome(
      launch(LaunchOutcome::kFailed, "rank 0 exited with status 1", 0),
      std::vector{rank_end(0, End::kFailed, 1, "disk full"), rank_end(1, End::kNone)});
  CHECK(outcome.status == RunStatus::kFailed);
  CHECK(outcome.reason == "rank 0: disk full");
}

TEST_CASE("one rank out of memory makes the run so, seen by either side") {
  const std::vector said{rank_end(0, End::kFailed, 4, "connection reset"),
                         rank_end(1, End::kFailed, 3, "needs 3 GiB")};
  CHECK(attempt_outcome(launch(LaunchOutcome::kFailed, "rank 0 exited with status 4", 0), said)
            .status == RunStatus::kOutOfMemory);
  const std::vector silent{rank_end(0, End::kNone), rank_end(1, End::kNone)};
  CHECK(attempt_outcome(launch(LaunchOutcome::kOutOfMemory, "rank 1 ran out of memory", 1), silent)
            .status == RunStatus::kOutOfMemory);
}

TEST_CASE("a run that was done when it was told to stop is finished") {
  const std::vector done{rank_end(0, End::kFinished), rank_end(1, End::kFinished)};
  for (const LaunchOutcome told : {LaunchOutcome::kInterrupted, LaunchOutcome::kTimeLimit}) {
    CHECK(attempt_outcome(launch(told, "told"), done).status == RunStatus::kFinished);
  }
  const std::vector stopped{rank_end(0, End::kInterrupted), rank_end(1, End::kNone)};
  CHECK(attempt_outcome(launch(LaunchOutcome::kInterrupted, "asked to stop"), stopped).status ==
        RunStatus::kInterrupted);
  CHECK(attempt_outcome(launch(LaunchOutcome::kTimeLimit, "limit"), stopped).status ==
        RunStatus::kTimeLimit);
}

TEST_CASE("a node that went away is the reason, whatever the ranks on others say about it") {
  const std::vector broken{rank_end(0, End::kFailed, 4, "connection reset"),
                           rank_end(1, End::kNone)};
  const AttemptOutcome outcome =
      attempt_outcome(launch(LaunchOutcome::kNodeFailed, "a node of the job failed"), broken);
  CHECK(outcome.status == RunStatus::kNodeFailed);
  CHECK(outcome.reason == "a node of the job failed, after step 3");
  CHECK(outcome.reason_rank == -1);
}

TEST_CASE("exit status 0 alone does not make a run finished") {
  const AttemptOutcome outcome =
      attempt_outcome(launch(LaunchOutcome::kExited),
                      std::vector{rank_end(0, End::kFinished), rank_end(1, End::kNone)});
  CHECK(outcome.status == RunStatus::kFailed);
  CHECK(outcome.reason_rank == 1);
}
