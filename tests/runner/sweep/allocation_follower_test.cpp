#include <catch2/catch.hpp>

#include "tests/runner/sweep/slurm_fixture.h"

using namespace fsdp;

TEST_CASE("a job that has ended before its runner looks has done all values of a doubled key") {
  const ResultsFolder results;
  FakeCluster cluster;
  SlurmRunnerLife life(results, cluster);
  std::vector<Store::PlannedRun> planned;
  for (const char* value : {"1", "2", "4"}) {
    planned.push_back(planned_run(value, 1, value));
    planned.back().spec.slurm.mode = SlurmMode::kAllocation;
  }
  const std::vector<RunToLaunch> runs = life.plan(in_order(planned));
  life.follow_up = [&](const RunToLaunch& run, RunStatus) -> std::optional<RunToLaunch> {
    if (run.record.id == runs[0].record.id) return runs[1];
    if (run.record.id == runs[1].record.id) return runs[2];
    return std::nullopt;
  };
  REQUIRE(life.sweep.submit({runs[0]}));
  for (const RunToLaunch& run : runs) {
    FakeJob job(results.path(), run.record);
    job.starts(1, "100");
    job.finishes();
  }
  cluster.ends("100");
  CHECK(life.sweep.follow() == ExitCode::kOk);
  for (const RunToLaunch& run : runs) {
    CHECK(life.attempts(run.record.id) == std::vector{RunStatus::kFinished});
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
  const std::vector<RunToLaunch> runs = life.plan(planned);
  REQUIRE(life.sweep.submit(runs));
  FakeJob first(results.path(), runs[0].record), second(results.path(), runs[1].record);
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
                    CHECK(life.status(runs[0].record.id) == RunStatus::kFinished);
                    CHECK(life.status(runs[1].record.id) == RunStatus::kQueued);
                    cluster.runs("100");
                    second.starts(2, "100");
                    second.finishes();
                    cluster.ends("100");
                  }};
  CHECK(life.sweep.follow() == ExitCode::kOk);
  CHECK(life.status(runs[0].record.id) == RunStatus::kFinished);
  CHECK(life.status(runs[1].record.id) == RunStatus::kFinished);
}
