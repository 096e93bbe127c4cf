#include "runner/sweep/job_submission.h"

#include <catch2/catch.hpp>
#include <stdexcept>

#include "tests/runner/sweep/slurm_fixture.h"

using namespace fsdp;

namespace {

// Whoever calls sbatch again and again without a pause is stopped.
class FullCluster : public FakeCluster {
 public:
  std::string submit(const std::filesystem::path& script) override {
    if (submissions == 3) throw std::runtime_error("sbatch is called without a pause");
    return FakeCluster::submit(script);
  }
};

// Its controller keeps a record of jobs that it refuses, as a real one does of some.
class RecordingCluster : public FakeCluster {
 public:
  std::string submit(const std::filesystem::path& script) override {
    FakeCluster::submit(script);
    throw SlurmRefused("sbatch refuses the job: Invalid partition name specified", false);
  }
};

// Its sbatch refuses what it reads, whether the controller answers or not.
class SilentCluster : public FakeCluster {
 public:
  std::string submit(const std::filesystem::path&) override {
    ++submissions;
    is_down = true;
    throw SlurmRefused("sbatch refuses the job: Invalid --mem specification", false);
  }
};

std::vector<Store::PlannedRun> two_runs(SlurmMode mode) {
  auto planned = in_order({planned_run("first", 1, "1"), planned_run("second", 1, "2")});
  for (auto& run : planned) run.spec.slurm.mode = mode;
  return planned;
}

}  // namespace

TEST_CASE("one job for all runs that meets a limit on submitted jobs waits, and is whole") {
  const ResultsFolder results;
  FullCluster cluster;
  SlurmRunnerLife life(results, cluster);
  const std::vector<RunToLaunch> runs = life.plan(two_runs(SlurmMode::kAllocation));
  cluster.most_waiting = 0;
  REQUIRE(life.sweep.submit(runs));
  CHECK(cluster.submissions == 1);
  CHECK_FALSE(life.sweep.follows(runs[0].record.id));
  CHECK(life.store.open_jobs("").empty());
  cluster.most_waiting = 1;
  life.is_asked_to_stop = true;
  CHECK(life.sweep.follow() == ExitCode::kInterrupted);
  CHECK(life.sweep.follows(runs[0].record.id));
  CHECK(cluster.submissions == 2);
  CHECK(life.store.open_jobs("lab").at(0).tasks.size() == 2);
}

TEST_CASE("a refused job that squeue shows as a failed one was not submitted") {
  const ResultsFolder results;
  RecordingCluster cluster;
  SlurmRunnerLife life(results, cluster);
  const std::vector<RunToLaunch> runs = life.plan(two_runs(SlurmMode::kPerRun));
  REQUIRE(life.sweep.submit(runs));
  CHECK(cluster.submissions == 1);
  CHECK_FALSE(life.sweep.follows(runs[1].record.id));
  CHECK(life.status(runs[0].record.id) == RunStatus::kFailed);
  CHECK(life.progress.count("Invalid partition name") == 2);
  CHECK(life.store.open_jobs("").empty());
}

TEST_CASE("a refusal is told at once, also while nobody says whether the job was taken") {
  const ResultsFolder results;
  SilentCluster cluster;
  SlurmRunnerLife life(results, cluster);
  const std::vector<RunToLaunch> runs = life.plan(two_runs(SlurmMode::kPerRun));
  REQUIRE(life.sweep.submit(runs));
  CHECK(cluster.submissions == 1);
  CHECK(life.status(runs[0].record.id) == RunStatus::kFailed);
  CHECK(life.progress.count("Invalid --mem specification") == 2);
  CHECK(life.store.open_jobs("").empty());
}
