#include <catch2/catch.hpp>

#include "tests/runner/jobs/slurm_fixture.h"

using namespace fsdp;
using enum RunStatus;

TEST_CASE("a job that has ended before its runner looks has done all values of a doubled key") {
  const ResultsFolder results;
  FakeCluster cluster;
  SlurmRunnerLife life(results, cluster);
  std::vector<RunRecord> planned;
  for (const char* value : {"1", "2", "4"}) {
    planned.push_back(planned_run(value, 1, value));
    planned.back().spec.slurm.mode = SlurmMode::kAllocation;
  }
  const std::vector<RunRecord> runs = life.plan(in_order(planned));
  life.follow_up = [&](const RunRecord& run, RunStatus) -> std::optional<RunRecord> {
    if (run.id == runs[0].id) return runs[1];
    if (run.id == runs[1].id) return runs[2];
    return std::nullopt;
  };
  REQUIRE(life.sweep.submit({runs[0]}));
  for (const RunRecord& run : runs) {
    FakeJob job(results.path(), run);
    job.starts(1, "100");
    job.finishes();
  }
  cluster.ends("100");
  CHECK(life.sweep.follow() == ExitCode::kOk);
  for (const RunRecord& run : runs) {
    CHECK(life.attempts(run.id) == std::vector{RunStatus::kFinished});
  }
  CHECK(cluster.submissions == 1);
  CHECK(life.store.open_jobs("").empty());
}

TEST_CASE("a run that has ended in a job stays so when the job is requeued") {
  const ResultsFolder results;
  FakeCluster cluster;
  SlurmRunnerLife life(results, cluster);
  auto planned = in_order({planned_run("first", 1, "1"), planned_run("second", 1, "2")});
  for (auto& run : planned) run.spec.slurm.mode = SlurmMode::kAllocation;
  const std::vector<RunRecord> runs = life.plan(planned);
  REQUIRE(life.sweep.submit(runs));
  FakeJob first(results.path(), runs[0]), second(results.path(), runs[1]);
  life.happens = {[&] {
                    cluster.runs("100");
                    first.starts(1, "100");
                    first.finishes();
                    second.starts(1, "100");
                  },
                  [&] {
                    second.is_asked_to_stop("time_limit");
                    cluster.waits_again("100");
                  },
                  [] {},
                  [] {},
                  [] {},
                  [&] {
                    CHECK(life.status(runs[0].id) == RunStatus::kFinished);
                    CHECK(life.status(runs[1].id) == RunStatus::kQueued);
                    cluster.runs("100");
                    second.starts(2, "100");
                    second.finishes();
                    cluster.ends("100");
                  }};
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.status(runs[0].id) == RunStatus::kFinished);
  CHECK(life.status(runs[1].id) == RunStatus::kFinished);
}

TEST_CASE("one job for all runs: each has ended when its files say so, and the job goes on") {
  SlurmLaboratory lab;
  SlurmRunnerLife life(lab.results, lab.cluster);
  std::vector<RunRecord> planned = runs_of_one_shape(3);
  for (auto& run : planned) run.spec.slurm.mode = SlurmMode::kAllocation;
  const std::vector<RunRecord> runs = life.plan(planned);
  REQUIRE(life.sweep.submit({runs[0], runs[1]}));
  CHECK(lab.cluster.submissions == 1);
  CHECK(lab.cluster.known.contains("100"));
  std::vector<FakeJob> jobs;
  for (const RunRecord& run : runs) jobs.push_back(lab.job(run));
  life.follow_up = [&](const RunRecord& run, RunStatus status) -> std::optional<RunRecord> {
    const bool is_doubled = run.id == runs[1].id && status == kFinished;
    return is_doubled ? std::optional(runs[2]) : std::nullopt;
  };
  SECTION("what a doubled key comes to next is done in it") {
    life.happens = {
        [&] {
          lab.cluster.runs("100");
          jobs[0].starts(1, "100");
          jobs[0].finishes();
        },
        [&] {
          CHECK(life.status(runs[0].id) == kFinished);
          CHECK(life.sweep.follows(runs[1].id));
          jobs[1].starts(1, "100");
          jobs[1].finishes();
        },
        [&] { CHECK(life.sweep.follows(runs[2].id)); },
        [&] {
          jobs[2].starts(1, "100");
          jobs[2].runs_out_of_memory();
          lab.cluster.ends("100");
        },
    };
    CHECK(life.sweep.follow() == ExitCode::kOk);
    CHECK(life.attempts(runs[2].id) == Statuses{kOutOfMemory});
  }
  SECTION("also when the job is over before that is known") {
    life.happens = {[&] {
      for (FakeJob& job : jobs) {
        job.starts(1, "100");
        job.finishes();
      }
      lab.cluster.ends("100");
    }};
    CHECK(life.sweep.follow() == ExitCode::kOk);
    CHECK(life.attempts(runs[2].id) == Statuses{kFinished});
  }
  SECTION("a run that came near the time limit goes on in it when it is requeued") {
    life.happens = {
        [&] {
          lab.cluster.runs("100");
          jobs[0].starts(1, "100");
          jobs[0].is_asked_to_stop("time_limit");
        },
        [&] { lab.cluster.waits_again("100"); },
        [&] {
          CHECK(life.attempts(runs[0].id) == Statuses{kTimeLimit});
          lab.cluster.runs("100");
          jobs[0].starts(2, "100");
          jobs[0].finishes();
          jobs[1].starts(1, "100");
        },
        [&] {
          CHECK(life.attempts(runs[0].id) == Statuses{kTimeLimit, kFinished});
          lab.cluster.becomes("100", TaskPhase::kEnded, "CANCELLED");
        },
    };
    CHECK(life.sweep.follow() == ExitCode::kRunFailed);
    CHECK(life.attempts(runs[1].id) == Statuses{kCancelled});
  }
  CHECK(lab.cluster.submissions == 1);
  CHECK(life.store.open_jobs("").empty());
}
