#include <catch2/catch.hpp>

#include "tests/runner/jobs/slurm_fixture.h"

// Two clusters share the results folder. Each leaves the other's submissions alone.
using namespace fsdp;
using enum RunStatus;

namespace {

constexpr const char* kTold =
    "jobs on another cluster (dawn) are left alone: call fsdp-run on a login node of that cluster";

struct TwoClusters {
  TwoClusters() {
    dawn.configuration.cluster = "dawn";
    dusk.configuration.cluster = "dusk";
  }
  // Submits runs on the cluster dawn, by a runner that ends then.
  std::vector<RunRecord> submit_at_dawn(int count) {
    SlurmRunnerLife life(results, dawn);
    std::vector<RunRecord> runs = life.plan(runs_of_one_shape(count));
    life.is_asked_to_stop = true;
    life.sweep.submit(runs);
    return runs;
  }

  ResultsFolder results;
  FakeCluster dawn;
  FakeCluster dusk;
};

}  // namespace

TEST_CASE("a runner on another cluster asks nothing about a job and submits nothing again") {
  TwoClusters lab;
  const std::vector<RunRecord> runs = lab.submit_at_dawn(2);
  // Somebody else's job on dusk has the same number.
  lab.dusk.ends("100_0", "FAILED");
  FakeJob job{lab.results.path(), runs[0]};
  job.starts(1, "100_0");
  {
    SlurmRunnerLife away(lab.results, lab.dusk);
    REQUIRE(away.sweep.pick_up());
    CHECK(away.progress.count(kTold) == 1);
    CHECK(away.sweep.follows(runs[0].id));
    CHECK(away.sweep.follows(runs[1].id));
    CHECK(away.sweep.follow() == ExitCode::kOk);
    CHECK(away.status(runs[0].id) == kRunning);
    CHECK(away.status(runs[1].id) == kQueued);
    CHECK(lab.dusk.queries == 0);
    CHECK(lab.dusk.submissions == 0);
  }
  job.finishes();
  lab.dawn.ends("100_0");
  lab.dawn.ends("100_1", "CANCELLED");
  SlurmRunnerLife home(lab.results, lab.dawn);
  REQUIRE(home.sweep.pick_up());
  CHECK(home.progress.count("another cluster") == 0);
  home.sweep.follow();
  CHECK(home.attempts(runs[0].id) == Statuses{kFinished});
  CHECK(home.status(runs[1].id) == kCancelled);
}

TEST_CASE("a submission that another cluster has not answered is not forgotten") {
  TwoClusters lab;
  lab.dawn.loses_answers = true;
  const std::vector<RunRecord> runs = lab.submit_at_dawn(1);
  {
    SlurmRunnerLife away(lab.results, lab.dusk);
    REQUIRE(away.store.open_jobs("").at(0).slurm_job.empty());
    REQUIRE(away.sweep.pick_up());
    CHECK(away.sweep.follows(runs[0].id));
    CHECK(away.sweep.follow() == ExitCode::kOk);
    CHECK(away.store.open_jobs("").size() == 1);
  }
  SlurmRunnerLife home(lab.results, lab.dawn);
  REQUIRE(home.sweep.pick_up());
  CHECK(home.store.open_jobs("").at(0).slurm_job == "100");
}

TEST_CASE("a report on another cluster tells what jobs wrote, and takes none for gone") {
  TwoClusters lab;
  const std::vector<RunRecord> runs = lab.submit_at_dawn(2);
  FakeJob(lab.results.path(), runs[0]).starts(1, "100_0");
  Store store(lab.results.path());
  CHECK(refresh(store, lab.results, &lab.dusk).empty());
  CHECK(store.run(runs[0].id)->status == kRunning);
  CHECK(store.run(runs[1].id)->status == kQueued);
  CHECK(store.open_jobs("").at(0).tasks.at(1).over == false);
  CHECK(lab.dusk.queries == 0);
}

TEST_CASE("a job is cancelled on its own cluster only") {
  TwoClusters lab;
  const std::vector<RunRecord> runs = lab.submit_at_dawn(1);
  const Store store(lab.results.path());
  const std::set<int64_t> chosen = {runs[0].id};
  const JobsToCancel away = jobs_to_cancel(store, chosen, "dusk");
  CHECK(away.names.empty());
  CHECK(away.tasks.empty());
  CHECK(away.other_clusters == std::set<std::string>{"dawn"});
  CHECK(jobs_to_cancel(store, chosen, "dawn").names == std::vector<std::string>{"100"});
  CHECK(jobs_to_cancel(store, {}, "dusk").other_clusters.empty());
}

TEST_CASE("a job whose cluster was not recorded is asked about wherever one is") {
  TwoClusters lab;
  lab.dawn.configuration.cluster = "";
  const std::vector<RunRecord> runs = lab.submit_at_dawn(1);
  lab.dusk.ends("100_0", "CANCELLED");
  SlurmRunnerLife away(lab.results, lab.dusk);
  REQUIRE(away.sweep.pick_up());
  CHECK(away.progress.count("another cluster") == 0);
  away.sweep.follow();
  CHECK(away.status(runs[0].id) == kCancelled);
}
