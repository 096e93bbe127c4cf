#include <catch2/catch.hpp>

#include "runner/cluster/job_plan.h"
#include "runner/cluster/script.h"
#include "tests/runner/jobs/slurm_fixture.h"

// The database was lost while jobs waited or ran. The submissions' folders remain.
using namespace fsdp;
using enum RunStatus;

namespace {

struct LostDatabase : OneRunner {
  void lose_database() const { std::filesystem::remove(lab.results.path() / "results.sqlite"); }
};

}  // namespace

TEST_CASE_METHOD(LostDatabase,
                 "jobs that waited or ran were submitted again without the database") {
  const std::vector<RunRecord> planned = runs_of_one_shape(3);
  const std::vector<RunRecord> runs = submitted(planned);
  lab.begins_and_finishes(*std::make_unique<FakeJob>(lab.job(runs[0])), "100_0");
  FakeJob running = lab.job(runs[1]);
  lab.begins(running, "100_1");
  lose_database();
  SlurmRunnerLife next(lab.results, lab.cluster);
  REQUIRE(next.sweep.pick_up());
  const std::vector<RunRecord> again = next.plan(planned);
  CHECK(next.attempts(again[0].id) == Statuses{kFinished});
  CHECK(next.sweep.follows(again[1].id));
  CHECK(next.sweep.follows(again[2].id));
  CHECK(next.status(again[2].id) == kQueued);
  next.happens = {[&] {
    lab.finishes(running, "100_1");
    lab.begins_and_finishes(*std::make_unique<FakeJob>(lab.job(runs[2])), "100_2");
  }};
  CHECK(next.sweep.follow() == ExitCode::kOk);
  CHECK(next.attempts(again[1].id) == Statuses{kFinished});
  CHECK(next.attempts(again[2].id) == Statuses{kFinished});
}

TEST_CASE_METHOD(LostDatabase, "jobs were found again in another order") {
  const std::vector<RunRecord> planned = runs_of_one_shape(1);
  std::vector<RunRecord> runs = submitted(planned);
  constexpr int kJobs = 6;
  for (int job = 1; job < kJobs; ++job) REQUIRE(life.sweep.submit(runs));
  lose_database();
  SlurmRunnerLife next(lab.results, lab.cluster);
  std::vector<std::string> found;
  for (const JobRecord& job : next.store.jobs_of_run(runs[0].id)) found.push_back(job.slurm_job);
  CHECK(found == std::vector<std::string>{"100", "101", "102", "103", "104", "105"});
}

TEST_CASE_METHOD(LostDatabase, "jobs of another cluster were taken for over") {
  const std::vector<RunRecord> planned = runs_of_one_shape(2);
  const std::vector<RunRecord> runs = submitted(planned);
  lose_database();
  FakeJob running = lab.job(runs[0]);
  running.starts(1, "100_0");
  REQUIRE(claim_submission(lab.submission(life.store), "100") == "100");
  {
    FakeCluster dusk;
    dusk.configuration.cluster = "dusk";
    SlurmRunnerLife away(lab.results, dusk);
    REQUIRE(away.sweep.pick_up());
    const std::vector<RunRecord> again = away.plan(planned);
    CHECK(away.progress.count("jobs on another cluster (here) are left alone") == 1);
    CHECK(away.status(again[0].id) == kRunning);
    CHECK(away.sweep.follows(again[1].id));
    CHECK(dusk.queries == 0);
  }
  running.finishes();
  lab.cluster.ends("100_0");
  lab.cluster.ends("100_1", "CANCELLED");
  SlurmRunnerLife home(lab.results, lab.cluster);
  REQUIRE(home.sweep.pick_up());
  home.sweep.follow();
  CHECK(home.attempts(runs[0].id) == Statuses{kFinished});
  CHECK(home.status(runs[1].id) == kCancelled);
}
