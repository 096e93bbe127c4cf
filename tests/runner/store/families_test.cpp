#include <catch2/catch.hpp>

#include "tests/runner/store/store_fixture.h"

// The store's record of doubled keys: families of runs that differ in one key.
using namespace fsdp;
using Catch::Matchers::Contains;

namespace {

RunRecord run_of_family(const std::string& family, int64_t value) {
  auto run = planned_run(family + "=" + std::to_string(value), 1, "hash" + std::to_string(value));
  run.family = family;
  run.family_key = "batch.size_per_rank";
  run.family_value = value;
  return run;
}

// Plans the run in the experiment and records an attempt with this end.
int64_t ended(Store& store, const std::string& experiment, const RunRecord& run, RunStatus status,
              const std::string& device = "cpu") {
  const int64_t id = store.plan_one_more(experiment, run).id;
  AttemptStart start = attempt_start();
  start.device_kind = device;
  const int attempt = store.begin_attempt(id, start);
  store.end_attempt(id, attempt, status, "", 2'000);
  return id;
}

struct Families : StoreTest {
  // Returns the values of the family `one` that ran out of memory.
  std::string out_of_memory() const {
    std::string text;
    for (const auto& [run, devices] : store.runs_of_family("one")) {
      if (devices.empty()) continue;
      text += std::to_string(*run.family_value) + " on " + devices + " in " + run.experiment + "; ";
    }
    return text;
  }
};

}  // namespace

TEST_CASE_METHOD(StoreTest, "runs of one position are listed by their value of the doubled key") {
  std::vector runs{run_of_family("one", 1), planned_run("last", 1)};
  runs.back().position = 1;
  store.plan(experiment("lab"), runs);
  for (const int64_t value : {8, 4, 6}) store.plan_one_more("lab", run_of_family("one", value));
  std::vector<std::string> points;
  for (const ComparisonRow& row : store.comparison("lab")) points.push_back(row.point);
  CHECK(points == std::vector<std::string>{"one=1", "one=4", "one=6", "one=8", "last"});
}

TEST_CASE_METHOD(StoreTest, "a run is found whether it is in the current list or not") {
  const std::vector runs{run_of_family("one", 1)};
  const int64_t id = store.plan(experiment("lab"), runs).front().id;
  store.plan(experiment("lab"), {});
  REQUIRE(store.recorded_run("lab", "one=1", "hash1"));
  CHECK(store.recorded_run("lab", "one=1", "hash1")->id == id);
  CHECK_FALSE(store.recorded_run("lab", "one=1", "hash2"));
  CHECK_FALSE(store.recorded_run("another", "one=1", "hash1"));
}

TEST_CASE_METHOD(Families,
                 "values that ran out of memory are known to all experiments, with their device") {
  store.plan(experiment("lab"), {});
  store.plan(experiment("other"), {});
  CHECK(store.runs_of_family("one").empty());
  ended(store, "lab", run_of_family("one", 4), RunStatus::kFinished);
  ended(store, "lab", run_of_family("one", 5), RunStatus::kFailed);
  ended(store, "lab", run_of_family("one", 8), RunStatus::kOutOfMemory);
  ended(store, "other", run_of_family("one", 6), RunStatus::kOutOfMemory);
  ended(store, "lab", run_of_family("one", 2), RunStatus::kOutOfMemory, "a small GPU");
  ended(store, "lab", run_of_family("two", 1), RunStatus::kOutOfMemory);
  CHECK(out_of_memory() == "2 on a small GPU in lab; 6 on cpu in other; 8 on cpu in lab; ");
  CHECK(store.runs_of_family("one").size() == 5);

  // The newest attempt counts, except an interrupted one.
  ended(store, "other", run_of_family("one", 6), RunStatus::kInterrupted);
  CHECK_THAT(out_of_memory(), Contains("6 on cpu"));
  ended(store, "other", run_of_family("one", 6), RunStatus::kFinished);
  CHECK_THAT(out_of_memory(), !Contains("6 on cpu"));
}

TEST_CASE_METHOD(StoreTest, "a run without a family is no evidence") {
  store.plan(experiment("lab"), {});
  ended(store, "lab", planned_run("plain", 1), RunStatus::kOutOfMemory);
  CHECK(store.runs_of_family("").empty());
}

TEST_CASE_METHOD(
    Families, "a run may be recorded as out of memory without an attempt, which is no evidence") {
  store.plan(experiment("lab"), {});
  const int64_t id = store.plan_one_more("lab", run_of_family("one", 8)).id;
  store.record_status(id, RunStatus::kOutOfMemory, "6 is known not to fit");
  const auto rows = store.comparison("lab");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].status == RunStatus::kOutOfMemory);
  CHECK(rows[0].reason == "6 is known not to fit");
  CHECK_FALSE(rows[0].attempt);
  CHECK(out_of_memory().empty());
}

TEST_CASE_METHOD(StoreTest, "a job has chosen the runs that it began without a task for them") {
  store.plan(experiment("lab"), {});
  const auto begin = [&](const RunRecord& run, const std::string& job) {
    AttemptStart start;
    start.host = "n1";
    start.slurm_job = job;
    store.begin_attempt(run.id, start);
    return run.id;
  };
  const RunRecord submitted = store.plan_one_more("lab", run_of_family("one", 1));
  JobRecord job{.experiment = "lab", .token = "t", .slurm_job = "12", .mode = "allocation"};
  job.folder = "slurm/lab-t";
  job.tasks = {{.run = submitted.id}};
  job.id = store.record_job(job);
  begin(submitted, "12");
  CHECK(store.runs_chosen_by(job).empty());
  const int64_t chosen = begin(store.plan_one_more("lab", run_of_family("one", 2)), "12");
  begin(store.plan_one_more("lab", run_of_family("one", 4)), "13");
  begin(store.plan_one_more("lab", run_of_family("one", 8)), "");
  const std::vector other_list{run_of_family("one", 2)};
  begin(store.plan(experiment("other"), other_list).front(), "12");
  const std::vector<RunRecord> found = store.runs_chosen_by(job);
  REQUIRE(found.size() == 1);
  CHECK(found[0].id == chosen);
  store.update_task(job.id, {.task = 1, .run = chosen});
  CHECK(store.runs_chosen_by(job).empty());
  job.slurm_job.clear();
  CHECK(store.runs_chosen_by(job).empty());
}

TEST_CASE_METHOD(
    Families, "what ran out of memory in results that were merged says nothing of this machine") {
  store.plan(experiment("lab"), {});
  ended(store, "lab", run_of_family("one", 4), RunStatus::kOutOfMemory);
  REQUIRE(store.runs_of_family("one").size() == 1);
  Database(results.database()).execute("update experiments set source = 'eve'");
  CHECK(store.runs_of_family("one").empty());
}
