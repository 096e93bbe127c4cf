#include <catch2/catch.hpp>

#include "tests/runner/jobs/slurm_fixture.h"

using namespace fsdp;
using enum RunStatus;

namespace {

// Two runs in one job, whose runner has ended.
struct Detached : SlurmLaboratory {
  Detached() {
    SlurmRunnerLife life(results, cluster);
    runs = life.plan(two_runs(SlurmMode::kAllocation));
    REQUIRE(life.sweep.submit(runs));
    jobs = jobs_of(runs);
  }
  int64_t id(size_t run) const { return runs[run].id; }
  // The run, as the next call of the user reads it.
  RunRecord again(const SlurmRunnerLife& life, size_t run) const {
    RunRecord record = life.store.run(id(run)).value();
    record.spec = runs[run].spec;
    return record;
  }

  std::vector<RunRecord> runs;
  std::vector<FakeJob> jobs;
};

}  // namespace

TEST_CASE("a run that its job goes on with once requeued is in that job for the next runner too") {
  Detached lab;
  lab.begins(lab.jobs[0], "100");
  lab.jobs[0].is_asked_to_stop("time_limit");
  const bool is_seen_before = GENERATE(false, true);
  if (is_seen_before) {
    SlurmRunnerLife earlier(lab.results, lab.cluster);
    REQUIRE(earlier.sweep.pick_up());
    CHECK(earlier.sweep.follows(lab.id(0)));
  }
  SlurmRunnerLife life(lab.results, lab.cluster);
  SECTION("while the job ends") {
    lab.cluster.becomes("100", TaskPhase::kEnding, "COMPLETING");
    REQUIRE(life.sweep.pick_up());
    CHECK(life.status(lab.id(0)) == kTimeLimit);
  }
  SECTION("while the job waits") {
    lab.cluster.waits_again("100");
    REQUIRE(life.sweep.pick_up());
    CHECK(life.status(lab.id(0)) == kQueued);
  }
  SECTION("when the job runs again and has not come to it") {
    REQUIRE(life.sweep.pick_up());
    CHECK(life.status(lab.id(0)) == kTimeLimit);
  }
  CHECK(life.sweep.follows(lab.id(0)));
  life.happens = {[&] {
    lab.begins(lab.jobs[0], "100", 2);
    lab.jobs[0].finishes();
    lab.begins_and_finishes(lab.jobs[1], "100");
  }};
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.attempts(lab.id(0)) == Statuses{kTimeLimit, kFinished});
}

TEST_CASE("a run that is cancelled while its requeued job waits does not stay queued") {
  Detached lab;
  lab.begins(lab.jobs[0], "100");
  lab.jobs[0].is_asked_to_stop("time_limit");
  SlurmRunnerLife life(lab.results, lab.cluster);
  REQUIRE(life.sweep.pick_up());
  life.happens = {[&] { lab.cluster.waits_again("100"); },
                  [&] {
                    CHECK(life.status(lab.id(0)) == kQueued);
                    lab.cluster.becomes("100", TaskPhase::kEnded, "CANCELLED", "");
                  }};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
  CHECK(life.status(lab.id(0)) == kCancelled);
}

TEST_CASE("an attempt is followed by the job that began it, not by an earlier job of its run") {
  Detached lab;
  lab.begins(lab.jobs[0], "100");
  lab.jobs[0].fails();
  lab.jobs[1].starts(1, "100");
  const auto second_job_begins = [&] { lab.begins(lab.jobs[0], "101", 2); };
  const auto second_job_ends = [&] { lab.finishes(lab.jobs[0], "101"); };
  const auto first_job_ends = [&] { lab.finishes(lab.jobs[1], "100"); };
  {
    SlurmRunnerLife life(lab.results, lab.cluster);
    REQUIRE(life.sweep.pick_up());
    CHECK(life.status(lab.id(0)) == kFailed);
    CHECK_FALSE(life.sweep.follows(lab.id(0)));
    REQUIRE(life.sweep.submit({lab.again(life, 0)}));
    life.happens = {second_job_begins, [] {}, [&] { life.is_asked_to_stop = true; }};
    SECTION("seen by one runner") {
      life.happens = {second_job_begins, [] {}, second_job_ends, [] {}, first_job_ends};
      CHECK(life.sweep.follow() == ExitCode::kOk);
    }
    SECTION("seen by the next runner") {
      CHECK(life.sweep.follow() == ExitCode::kInterrupted);
      SlurmRunnerLife next(lab.results, lab.cluster);
      REQUIRE(next.sweep.pick_up());
      CHECK(next.status(lab.id(0)) == kRunning);
      next.happens = {second_job_ends, [] {}, first_job_ends};
      CHECK(next.sweep.follow() == ExitCode::kOk);
    }
    SECTION("not begun when the earlier job has ended") {
      SlurmRunnerLife next(lab.results, lab.cluster);
      first_job_ends();
      REQUIRE(next.sweep.pick_up());
      CHECK(next.status(lab.id(0)) == kQueued);
      next.happens = {second_job_begins, second_job_ends};
      CHECK(next.sweep.follow() == ExitCode::kOk);
    }
  }
  const SlurmRunnerLife life(lab.results, lab.cluster);
  CHECK(life.attempts(lab.id(0)) == Statuses{kFailed, kFinished});
  CHECK(life.status(lab.id(0)) == kFinished);
  CHECK(life.store.open_jobs("").empty());
}

TEST_CASE("a run whose answer from sbatch was lost is queued, though it failed before") {
  Detached lab;
  lab.cluster.runs("100");
  for (FakeJob& job : lab.jobs) {
    job.starts(1, "100");
    job.fails();
  }
  lab.cluster.ends("100");
  {
    SlurmRunnerLife killed(lab.results, lab.cluster);
    REQUIRE(killed.sweep.pick_up());
    CHECK(killed.status(lab.id(0)) == kFailed);
    lab.cluster.loses_answers = true;
    killed.is_asked_to_stop = true;
    REQUIRE_FALSE(killed.sweep.submit({lab.again(killed, 0)}));
  }
  SlurmRunnerLife life(lab.results, lab.cluster);
  REQUIRE(life.sweep.pick_up());
  CHECK(life.sweep.follows(lab.id(0)));
  CHECK(life.status(lab.id(0)) == kQueued);
}

TEST_CASE("a run whose ranks died without a word has ended while its job goes on") {
  Detached lab;
  lab.begins(lab.jobs[0], "100");
  lab.jobs[0].says("failed");
  lab.jobs[1].starts(1, "100");
  SlurmRunnerLife life(lab.results, lab.cluster);
  REQUIRE(life.sweep.pick_up());
  life.happens = {[] {}, [] {}, [] {},
                  [&] {
                    CHECK(life.status(lab.id(0)) == kFailed);
                    CHECK_FALSE(life.sweep.follows(lab.id(0)));
                    lab.finishes(lab.jobs[1], "100");
                  }};
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
}

TEST_CASE("a doubled key's next value is left to the job that doubles that key, and no other") {
  SlurmLaboratory lab;
  std::vector<RunRecord> planned;
  for (const char* name : {"one=1", "one=2", "two=2"}) {
    planned.push_back(planned_run(name, 1, name));
    planned.back().family = std::string(name).substr(0, 3);
    planned.back().spec.slurm.mode = SlurmMode::kAllocation;
  }
  planned = in_order(planned);
  {
    SlurmRunnerLife detached(lab.results, lab.cluster);
    REQUIRE(detached.sweep.submit({detached.plan(planned)[0]}));
  }
  lab.cluster.runs("100");
  SlurmRunnerLife life(lab.results, lab.cluster);
  const std::vector<RunRecord> runs = life.plan(planned);
  REQUIRE(life.sweep.pick_up());
  CHECK(life.sweep.leave_to_job(runs[1]));
  CHECK_FALSE(life.sweep.leave_to_job(runs[2]));
  FakeJob first = lab.job(runs[0]), second = lab.job(runs[1]);
  SECTION("which comes to it") {
    life.happens = {[&] {
      lab.begins_and_finishes(first, "100");
      lab.begins_and_finishes(second, "100");
    }};
    CHECK(life.sweep.follow() == ExitCode::kOk);
    CHECK(lab.cluster.submissions == 1);
  }
  SECTION("which ends before, so it is submitted then") {
    life.happens = {[&] { lab.begins_and_finishes(first, "100"); }};
    life.happens.resize(8, [] {});
    life.happens.push_back([&] { lab.begins_and_finishes(second, "101"); });
    CHECK(life.sweep.follow() == ExitCode::kOk);
    CHECK(lab.cluster.submissions == 2);
  }
  CHECK(life.attempts(runs[1].id) == Statuses{kFinished});
}
