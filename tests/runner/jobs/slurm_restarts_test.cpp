#include <catch2/catch.hpp>

#include "tests/runner/jobs/slurm_fixture.h"

using namespace fsdp;
using enum RunStatus;

static const auto kRestartsRanOut =
    Catch::EndsWith("; slurm.max_restarts is reached: 1 start in a row without a new checkpoint");

namespace {

// A run whose jobs end one after the other, each in its first attempt.
struct RestartedRun : OneRunner {
  // Lets the next job of the run make a step more and end in this state.
  void ends_next(FakeJob& job, const std::string& state, bool saves = false) {
    if (attempts > 0) life.happens.resize(life.happens.size() + 2, [] {});
    life.happens.push_back([this, &job, state, saves, attempt = ++attempts] {
      const std::string task = std::to_string(99 + attempt) + "_0";
      job.starts(attempt, task);
      job.steps(attempt);
      if (saves) job.saves();
      lab.cluster.ends(task, state);
    });
  }
  int attempts = 0;
};

}  // namespace

TEST_CASE_METHOD(RestartedRun,
                 "what the cluster ended without requeue is submitted again, not for ever") {
  std::vector<RunRecord> planned = runs_of_one_shape(1, /*checkpoint_steps=*/1);
  planned[0].spec.slurm.max_restarts = 2;
  planned[0].spec.slurm.time = "1:00:00";
  const std::vector<RunRecord> runs = submitted(planned);
  FakeJob job = lab.job(runs[0]);
  for (const char* state : {"PREEMPTED", "NODE_FAIL", "TIMEOUT"}) ends_next(job, state);
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.attempts(runs[0].id) == Statuses{kPreempted, kNodeFailed, kTimeLimit});
  CHECK(lab.cluster.submissions == 3);
}

TEST_CASE_METHOD(RestartedRun, "restarts that made progress counted against slurm.max_restarts") {
  std::vector<RunRecord> planned = runs_of_one_shape(1, /*checkpoint_steps=*/1);
  planned[0].spec.slurm.max_restarts = 1;
  const std::vector<RunRecord> runs = submitted(planned);
  FakeJob job = lab.job(runs[0]);
  for (const bool saves : {true, true, true, false, false}) ends_next(job, "PREEMPTED", saves);
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

TEST_CASE_METHOD(
    OneRunner,
    "a task that was cancelled while it waited ended as unknown where Slurm keeps no record") {
  const std::vector<RunRecord> runs = submitted(2);
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
  const std::vector<RunRecord> runs = submitted(planned);
  FakeJob job = lab.job(runs[0]);
  life.happens = {[&] { lab.begins(job, "100_0"); },
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

TEST_CASE_METHOD(OneRunner,
                 "restarts that ran out while nobody watched are told as if somebody had") {
  std::vector<RunRecord> planned = runs_of_one_shape(1);
  planned[0].spec.slurm.max_restarts = 0;
  const std::vector<RunRecord> runs = submitted(planned);
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
