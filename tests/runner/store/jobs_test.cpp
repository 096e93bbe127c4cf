#include <catch2/catch.hpp>

#include "runner/store/prune.h"
#include "tests/runner/store/store_fixture.h"

namespace fsdp {
namespace {

// Plans the experiment "lab" with `count` runs of one rank. Returns their ids.
std::vector<int64_t> plan_runs(Store& store, int64_t count) {
  std::vector<RunRecord> runs;
  for (int64_t i = 0; i < count; ++i) runs.push_back(planned_run("point" + std::to_string(i), 1));
  std::vector<int64_t> ids;
  for (const RunRecord& run : store.plan(experiment("lab"), in_order(runs))) ids.push_back(run.id);
  return ids;
}

JobRecord job_of(const std::vector<int64_t>& runs, const std::string& token = "t0ken") {
  JobRecord job{.experiment = "lab",
                .token = token,
                .slurm_job = "",
                .cluster = "dawn",
                .mode = "per_run",
                .folder = "slurm/lab-" + token,
                .submitted_unix_ms = 500};
  for (const int64_t run : runs) {
    job.tasks.push_back({.task = std::ssize(job.tasks), .run = run});
  }
  return job;
}

AttemptStart start_in(const std::string& slurm_job, int64_t started_unix_ms = 1'000) {
  AttemptStart start = attempt_start(started_unix_ms);
  start.slurm_job = slurm_job;
  start.node_list = "n1";
  return start;
}

RunRecord record_of(const Store& store, int64_t run) { return store.run(run).value(); }

TEST_CASE_METHOD(StoreTest,
                 "a job is there before sbatch answers, and open until all its tasks are over") {
  const auto runs = plan_runs(store, 2);
  const int64_t id = store.record_job(job_of(runs));
  auto open = store.open_jobs("lab");
  REQUIRE(open.size() == 1);
  CHECK(open[0].id == id);
  CHECK(open[0].token == "t0ken");
  CHECK(open[0].slurm_job.empty());
  CHECK(open[0].cluster == "dawn");
  CHECK(open[0].folder == "slurm/lab-t0ken");
  CHECK(slurm_name(open[0], 1).empty());

  store.set_slurm_job(id, "12");
  JobTask task = open[0].tasks.at(1);
  task.state = "RUNNING";
  task.node_list = "n[1-2]";
  task.ends_unix_ms = 9'000;
  store.update_task(id, task);
  task.task = 0;
  task.run = runs[0];
  task.over = true;
  store.update_task(id, task);
  open = store.open_jobs("");
  REQUIRE(open.size() == 1);
  CHECK(slurm_name(open[0], 1) == "12_1");
  REQUIRE(open[0].tasks.size() == 2);
  CHECK(open[0].tasks[0].over);
  CHECK_FALSE(open[0].tasks[1].over);
  CHECK(open[0].tasks[1].run == runs[1]);
  CHECK(open[0].tasks[1].node_list == "n[1-2]");
  CHECK(open[0].tasks[1].ends_unix_ms == 9'000);
  CHECK(store.open_jobs("another").empty());

  task = open[0].tasks[1];
  task.over = true;
  store.update_task(id, task);
  CHECK(store.open_jobs("lab").empty());
  const auto of_run = store.jobs_of_run(runs[1]);
  REQUIRE(of_run.size() == 1);
  REQUIRE(of_run[0].tasks.size() == 1);
  CHECK(of_run[0].tasks[0].task == 1);
}

TEST_CASE("an allocation's runs share its job's name") {
  JobRecord job;
  job.mode = "allocation";
  job.slurm_job = "12";
  CHECK(slurm_name(job, 3) == "12");
}

TEST_CASE_METHOD(StoreTest, "a job may get more runs while it is open") {
  const auto runs = plan_runs(store, 2);
  JobRecord job = job_of({runs[0]});
  job.tasks[0].device_kind = "cpu";
  const int64_t id = store.record_job(job);
  const JobTask more{.task = 1, .run = runs[1], .device_kind = "2 GPUs"};
  store.update_task(id, more);
  const JobRecord found = store.open_jobs("lab").at(0);
  REQUIRE(found.tasks.size() == 2);
  CHECK(found.tasks[0].device_kind == "cpu");
  CHECK(found.tasks[1] == more);
}

TEST_CASE_METHOD(StoreTest, "a job that Slurm refused is forgotten, its runs are not") {
  const auto runs = plan_runs(store, 1);
  const int64_t refused = store.record_job(job_of(runs, "refused"));
  store.record_job(job_of(runs));
  store.forget_job(refused);
  const auto jobs = store.jobs_of_run(runs[0]);
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].token == "t0ken");
  CHECK(store.run(runs[0])->point == "point0");
  CHECK_FALSE(store.run(99));
}

TEST_CASE_METHOD(
    StoreTest,
    "while sbatch has not answered, attempts of any job are left alone, local ones are not") {
  const auto runs = plan_runs(store, 2);
  store.record_job(job_of(runs));
  store.begin_attempt(runs[0], start_in("12_0"));
  store.begin_attempt(runs[1], attempt_start());
  const auto running = store.running_attempts("lab");
  REQUIRE(running.size() == 1);
  CHECK(running[0].run.id == runs[1]);
}

TEST_CASE_METHOD(StoreTest,
                 "running attempts of open jobs are not taken for those of a killed runner") {
  const auto runs = plan_runs(store, 3);
  const int64_t id = store.record_job(job_of(runs));
  store.set_slurm_job(id, "12");
  store.begin_attempt(runs[0], start_in("12_0"));
  store.begin_attempt(runs[1], start_in("7_1"));  // of a job that is not open
  store.begin_attempt(runs[2], attempt_start());  // without a job
  auto running = store.running_attempts("lab");
  REQUIRE(running.size() == 2);
  CHECK(running[0].run.id == runs[1]);
  CHECK(running[0].start.slurm_job == "7_1");
  CHECK(running[1].run.id == runs[2]);

  JobTask task = store.open_jobs("lab")[0].tasks[0];
  task.over = true;
  store.update_task(id, task);
  CHECK(store.running_attempts("lab").size() == 3);
}

TEST_CASE_METHOD(StoreTest, "running attempts of an open allocation are left alone too") {
  const auto runs = plan_runs(store, 1);
  JobRecord job = job_of(runs);
  job.mode = "allocation";
  job.slurm_job = "12";
  store.record_job(job);
  store.begin_attempt(runs[0], start_in("12"));
  CHECK(store.running_attempts("lab").empty());
}

TEST_CASE_METHOD(StoreTest, "the status of a queued run names its job and why it waits") {
  const auto runs = plan_runs(store, 2);
  const int64_t id = store.record_job(job_of(runs));
  store.record_status(runs[0], RunStatus::kQueued, "");
  CHECK(store.statuses("lab").at(0).slurm_job.empty());
  store.set_slurm_job(id, "12");
  JobTask task{.task = 0, .run = runs[0], .over = false, .state = "PENDING", .reason = "Resources"};
  store.update_task(id, task);
  StatusRow row = store.statuses("lab").at(0);
  CHECK(row.status == RunStatus::kQueued);
  CHECK(row.slurm_job == "12_0");
  CHECK(row.job_state == "PENDING");
  CHECK(row.job_reason == "Resources");
  CHECK_FALSE(row.job_ends_unix_ms);

  store.begin_attempt(runs[0], start_in("12_0"));
  task = {.task = 0,
          .run = runs[0],
          .over = false,
          .state = "RUNNING",
          .reason = "",
          .node_list = "n1",
          .ends_unix_ms = 60'000};
  store.update_task(id, task);
  row = store.statuses("lab").at(0);
  CHECK(row.status == RunStatus::kRunning);
  CHECK(row.node_list == "n1");
  CHECK(row.job_ends_unix_ms == 60'000);

  store.end_attempt(runs[0], 1, RunStatus::kFinished, "", 2'000);
  task.over = true;
  store.update_task(id, task);
  row = store.statuses("lab").at(0);
  CHECK(row.slurm_job == "12_0");
  CHECK(row.node_list == "n1");
  CHECK(row.job_state.empty());
  CHECK_FALSE(row.job_ends_unix_ms);
  CHECK(store.comparison("lab").at(0).slurm_job == "12_0");
  CHECK(store.statuses("lab").size() == 2);
}

TEST_CASE_METHOD(StoreTest, "a run that is submitted again is shown once, with its newest job") {
  const auto runs = plan_runs(store, 1);
  JobRecord job = job_of(runs);
  job.slurm_job = "12";
  const int64_t first = store.record_job(job);
  JobTask task = job.tasks[0];
  task.over = true;
  store.update_task(first, task);
  job.token = "another";
  job.folder = "slurm/lab-another";
  job.slurm_job = "13";
  store.record_job(job);
  const auto rows = store.statuses("lab");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].slurm_job == "13_0");
  CHECK(store.jobs_of_run(runs[0]).size() == 2);
}

TEST_CASE("attempts that were cut short hide no result, and the newest of them is shown") {
  const RunStatus cut =
      GENERATE(RunStatus::kInterrupted, RunStatus::kTimeLimit, RunStatus::kPreempted,
               RunStatus::kNodeFailed, RunStatus::kCancelled, RunStatus::kUnknown);
  CAPTURE(name_of(cut));
  const ResultsFolder results;
  Store store(results.path());
  const int64_t run = plan_runs(store, 1)[0];
  for (int attempt = 1; attempt <= 2; ++attempt) {
    CHECK(store.begin_attempt(run, start_in("12_0", 1'000 * attempt)) == attempt);
    CHECK(record_of(store, run).status == RunStatus::kRunning);
    store.end_attempt(run, attempt, cut, "cut", 1'000 * attempt + 500);
  }
  CHECK(record_of(store, run).status == cut);
  CHECK(store.comparison("lab")[0].attempt == 2);
  store.begin_attempt(run, start_in("12_0", 3'000));
  store.ingest(run, 3, 0, step_events(5, 6));
  store.end_attempt(run, 3, RunStatus::kOutOfMemory, "", 9'000);
  // A rerun after this result is cut short.
  store.begin_attempt(run, start_in("13_0", 10'000));
  store.end_attempt(run, 4, cut, "cut again", 11'000);
  const ComparisonRow row = store.comparison("lab")[0];
  CHECK(row.status == RunStatus::kOutOfMemory);
  CHECK(row.attempt == 3);
  CHECK(row.steps == 2);
  CHECK(store.statuses("lab")[0].attempt == 3);
  CHECK(record_of(store, run).status == RunStatus::kOutOfMemory);
}

TEST_CASE_METHOD(StoreTest, "a status without an attempt is the run's, but hides no result") {
  const int64_t run = plan_runs(store, 1)[0];
  store.record_status(run, RunStatus::kFailed, "sbatch: invalid partition");
  CHECK(record_of(store, run).status == RunStatus::kFailed);
  store.record_status(run, RunStatus::kCancelled, "cancelled while it was queued");
  CHECK(record_of(store, run).status == RunStatus::kCancelled);
  CHECK(store.statuses("lab")[0].reason == "cancelled while it was queued");
  CHECK(store.attempts(run).empty());

  store.end_attempt(run, store.begin_attempt(run, attempt_start()), RunStatus::kFinished, "",
                    2'000);
  store.record_status(run, RunStatus::kQueued, "");
  CHECK(record_of(store, run).status == RunStatus::kQueued);
  store.record_status(run, RunStatus::kCancelled, "cancelled while it was queued");
  CHECK(record_of(store, run).status == RunStatus::kFinished);
  CHECK(record_of(store, run).reason.empty());
  store.record_status(run, RunStatus::kFailed, "sbatch: invalid partition");
  CHECK(record_of(store, run).status == RunStatus::kFinished);
  CHECK(record_of(store, run).reason.empty());
}

TEST_CASE_METHOD(StoreTest, "more may become known of an attempt's end") {
  const int64_t run = plan_runs(store, 1)[0];
  store.begin_attempt(run, start_in("12_0"));
  store.ingest(run, 1, 0, step_events(1, 3));
  store.end_attempt(run, 1, RunStatus::kUnknown, "Slurm does not answer", 4'000);
  CHECK(record_of(store, run).status == RunStatus::kUnknown);
  store.ingest(run, 1, 0, step_events(1, 4));
  store.end_attempt(run, 1, RunStatus::kOutOfMemory, "", 5'000);
  const ComparisonRow row = store.comparison("lab")[0];
  CHECK(row.status == RunStatus::kOutOfMemory);
  CHECK(row.steps == 4);
}

TEST_CASE_METHOD(StoreTest,
                 "a run is not pruned while its job is open, and goes with its jobs afterwards") {
  const auto runs = plan_runs(store, 2);
  JobRecord job = job_of(runs);
  job.slurm_job = "12";
  job.tasks[1].over = true;
  const int64_t id = store.record_job(job);
  PruneWish wish;
  wish.runs = {runs.begin(), runs.end()};
  const auto prunable = find_prunable(store, results.path(), wish);
  REQUIRE(prunable.size() == 1);
  CHECK(prunable[0].run->id == runs[1]);
  Database(results.database()).execute("insert into experiment_texts values ('submitted', '')");
  CHECK(prune(store, results.path(), wish, prunable).empty());
  CHECK(store.runs().size() == 1);
  CHECK(store.open_jobs("lab").at(0).tasks.size() == 1);
  CHECK(count(results, "experiment_texts") == 1);
  job.tasks[0].over = true;
  store.update_task(id, job.tasks[0]);
  prune(store, results.path(), wish, find_prunable(store, results.path(), wish));
  CHECK(count(results, "jobs") == 0);
  CHECK(count(results, "experiments") == 0);
  CHECK(count(results, "experiment_texts") == 0);
}

}  // namespace
}  // namespace fsdp
