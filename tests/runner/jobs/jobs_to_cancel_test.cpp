#include <catch2/catch.hpp>

#include "runner/cluster/open_jobs.h"
#include "tests/runner/store/store_fixture.h"

using namespace fsdp;

namespace {

// Records a job of three runs: one has finished, one runs, and one waits. Returns their ids.
std::vector<int64_t> runs_in_job(Store& store, const std::string& mode) {
  const auto records = store.plan(
      experiment("lab"),
      in_order({planned_run("done", 1), planned_run("runs", 1), planned_run("waits", 1)}));
  JobRecord job{
      .experiment = "lab", .token = "1", .slurm_job = "12", .mode = mode, .folder = "slurm/lab-1"};
  std::vector<int64_t> ids;
  for (const RunRecord& record : records) {
    store.record_status(record.id, RunStatus::kQueued, "");
    job.tasks.emplace_back().task = std::ssize(ids);
    job.tasks.back().run = record.id;
    ids.push_back(record.id);
  }
  store.record_job(job);
  store.begin_attempt(ids[0], attempt_start());
  store.end_attempt(ids[0], 1, RunStatus::kFinished, "", 2'000);
  store.begin_attempt(ids[1], attempt_start());
  return ids;
}

std::vector<std::string> points(const JobsToCancel& jobs) {
  std::vector<std::string> points;
  for (const JobsToCancel::Task& task : jobs.tasks) points.push_back(task.run.point);
  return points;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE_METHOD(StoreTest,
                 "a whole job is cancelled by its name, and only runs that it ends are told") {
  const std::string mode = GENERATE("per_run", "allocation");
  const std::vector<int64_t> ids = runs_in_job(store, mode);
  const JobsToCancel jobs = jobs_to_cancel(store, {ids.begin(), ids.end()}, "here");
  CHECK(jobs.names == Names{"12"});
  CHECK(points(jobs) == Names{"runs", "waits"});
}

TEST_CASE_METHOD(StoreTest, "a run of an array is cancelled by itself") {
  const std::vector<int64_t> ids = runs_in_job(store, "per_run");
  CHECK(jobs_to_cancel(store, {ids[2]}, "here").names == Names{"12_2"});
  CHECK(jobs_to_cancel(store, {ids[0]}, "here").names.empty());
}

TEST_CASE_METHOD(StoreTest,
                 "a run of an allocation is not cancelled with others that nobody named") {
  const std::vector<int64_t> ids = runs_in_job(store, "allocation");
  CHECK_THROWS_WITH(jobs_to_cancel(store, {ids[2]}, "here"),
                    Catch::Contains("'waits' is in job 12 with other runs") &&
                        Catch::Contains("fsdp-run cancel lab"));
  CHECK(jobs_to_cancel(store, {ids[1], ids[2]}, "here").names == Names{"12"});
}
