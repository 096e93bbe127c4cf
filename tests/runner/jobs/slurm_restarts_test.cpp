#include <catch2/catch.hpp>

#include "tests/runner/jobs/slurm_fixture.h"

using namespace fsdp;
using enum RunStatus;

static const auto kRestartsRanOut =
    Catch::EndsWith("; slurm.max_restarts is reached: 1 start in a row without a new checkpoint");

TEST_CASE_METHOD(OneRunner,
                 "what the cluster ended without requeue is submitted again, not for ever") {
  std::vector<RunRecord> planned = runs_of_one_shape(1, /*checkpoint_steps=*/1);
  planned[0].spec.slurm.max_restarts = 2;
  planned[0].spec.slurm.time = "1:00:00";
  const std::vector<RunRecord> runs = life.plan(planned);
  REQUIRE(life.sweep.submit(runs));
  FakeJob job = lab.job(runs[0]);
  const auto ends_as = [&](int attempt, const std::string& state) {
    return [&, attempt, state] {
      const std::string task = std::to_string(99 + attempt) + "_0";
      job.starts(attempt, task);
      job.steps(attempt);
      lab.cluster.ends(task, state);
    };
  };
  const auto nothing = [] {};
  life.happens = {ends_as(1, "PREEMPTED"), nothing, nothing,
                  ends_as(2, "NODE_FAIL"), nothing, nothing,
                  ends_as(3, "TIMEOUT")};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.attempts(runs[0].id) == Statuses{kPreempted, kNodeFailed, kTimeLimit});
  CHECK(lab.cluster.submissions == 3);
}

TEST_CASE_METHOD(OneRunner, "restarts that made progress counted against slurm.max_restarts") {
  std::vector<RunRecord> planned = runs_of_one_shape(1, /*checkpoint_steps=*/1);
  planned[0].spec.slurm.max_restarts = 1;
  const std::vector<RunRecord> runs = life.plan(planned);
  REQUIRE(life.sweep.submit(runs));
  FakeJob job = lab.job(runs[0]);
  const auto is_preempted = [&](int attempt, bool has_checkpoint) {
    return [&, attempt, has_checkpoint] {
      const std::string task = std::to_string(99 + attempt) + "_0";
      job.starts(attempt, task);
      job.steps(attempt);
      if (has_checkpoint) job.saves();
      lab.cluster.ends(task, "PREEMPTED");
    };
  };
  const auto nothing = [] {};
  life.happens = {is_preempted(1, true), nothing, nothing, is_preempted(2, true),  nothing, nothing,
                  is_preempted(3, true), nothing, nothing, is_preempted(4, false), nothing, nothing,
                  is_preempted(5, false)};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.attempts(runs[0].id) == Statuses(4, kPreempted));
}

TEST_CASE_METHOD(OneRunner, "a run without checkpoints is not repeated after a time limit") {
  const std::vector<RunRecord> runs = submitted(1);
  FakeJob job = lab.job(runs[0]);
  life.happens = {[&] {
    job.starts(1, "100_0");
    lab.cluster.ends("100_0", "TIMEOUT");
  }};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.attempts(runs[0].id) == Statuses{kTimeLimit});
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE_METHOD(OneRunner,
                 "a run that is cancelled while it waits has no attempt, and is not repeated") {
  const std::vector<RunRecord> runs = submitted(1);
  life.happens = {[&] { lab.cluster.becomes("100_0", TaskPhase::kEnded, "CANCELLED", ""); }};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.attempts(runs[0].id).empty());
  CHECK(life.status(runs[0].id) == kCancelled);
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE(
    "a task that was cancelled while it waited ended as unknown where Slurm keeps no record") {
  SlurmLaboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  const std::vector<RunRecord> runs = life.plan(runs_of_one_shape(2));
  REQUIRE(life.sweep.submit(runs));
  life.happens = {[&] {
    Store(lab.results.path()).record_status(runs[0].id, kCancelled, "");  // as cancel does
    lab.cluster.known.clear();
  }};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.status(runs[0].id) == kCancelled);
  CHECK(life.status(runs[1].id) == kUnknown);
}

TEST_CASE_METHOD(OneRunner, "a run whose job was requeued once too often is what ended it") {
  std::vector<RunRecord> planned = runs_of_one_shape(1);
  planned[0].spec.slurm.max_restarts = 0;
  const std::vector<RunRecord> runs = life.plan(planned);
  REQUIRE(life.sweep.submit(runs));
  FakeJob job = lab.job(runs[0]);
  life.happens = {[&] {
                    lab.cluster.runs("100_0");
                    job.starts(1, "100_0");
                  },
                  [&] {
                    job.is_asked_to_stop("interrupted");
                    lab.cluster.waits_again("100_0");
                  },
                  [&] {
                    job.gives_up("interrupted", 1);
                    lab.cluster.ends("100_0", "FAILED");
                  }};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.status(runs[0].id) == kPreempted);
  CHECK_THAT(life.store.run(runs[0].id)->reason, kRestartsRanOut);
  CHECK(lab.cluster.submissions == 1);
}

TEST_CASE("restarts that ran out while nobody watched are told as if somebody had") {
  SlurmLaboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  std::vector<RunRecord> planned = runs_of_one_shape(1);
  planned[0].spec.slurm.max_restarts = 0;
  const std::vector<RunRecord> runs = life.plan(planned);
  REQUIRE(life.sweep.submit(runs));
  FakeJob job = lab.job(runs[0]);
  job.starts(1, "100_0");
  const auto [outcome, status] = GENERATE(table<std::string, RunStatus>(
      {{"interrupted", kPreempted}, {"time_limit", kTimeLimit}, {"unseen", kNodeFailed}}));
  job.gives_up(outcome, 1);
  lab.cluster.ends("100_0", GENERATE("FAILED", "COMPLETED"));
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.attempts(runs[0].id) == Statuses{status});
  CHECK_THAT(life.store.run(runs[0].id)->reason, kRestartsRanOut);
  CHECK(lab.cluster.submissions == 1);
}
