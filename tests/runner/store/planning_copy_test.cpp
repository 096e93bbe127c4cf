#include "tests/runner/store/store_fixture.h"

using namespace fsdp;

namespace {

// A run that finished, one that did not fit, and what their ranks measured.
void fill(Store& store) {
  auto planned = in_order({planned_run("fits", 1, "11"), planned_run("does not", 1, "22")});
  planned[1].family = "family";
  planned[1].family_key = "batch.size_per_rank";
  planned[1].family_value = 8;
  const auto records = store.plan(experiment("lab"), planned);
  AttemptStart start = attempt_start();
  start.device_kind = "cpu";
  for (const RunRecord& record : records) {
    store.begin_attempt(record.id, start);
    std::vector<Event> events = step_events(1, 100);
    events.push_back(event(101, 1, DeviceSample()));
    events.push_back(event(102, 1, EvaluationDone()));
    events.push_back(event(103, 1, CheckpointDone()));
    store.ingest(record.id, 1, 0, events);
  }
  store.end_attempt(records[0].id, 1, RunStatus::kFinished, "", 2'000);
  store.end_attempt(records[1].id, 1, RunStatus::kOutOfMemory, "rank 0 ran out of memory", 2'000);
}

int64_t rows(const std::filesystem::path& database, const std::string& table) {
  Database opened(database);
  return Statement(opened, "select count(*) from " + table).value<int64_t>().value();
}

}  // namespace

TEST_CASE("a planning copy has what planning looks at, and nothing that was measured") {
  const ResultsFolder results, copied;
  Store store(results.path());
  fill(store);
  store.write_planning_copy(copied.database());
  for (const char* table : {"steps", "evaluations", "checkpoints", "device_samples"}) {
    CAPTURE(table);
    CHECK(rows(results.database(), table) > 0);
    CHECK(rows(copied.database(), table) == 0);
  }
  const Store copy(copied.path());
  const auto finished = copy.recorded_run("lab", "fits", "11");
  REQUIRE(finished);
  CHECK(finished->status == RunStatus::kFinished);
  CHECK(finished->attempt == 1);
  const auto known = copy.known_out_of_memory("family");
  REQUIRE(known.size() == 1);
  CHECK(known[0].value == 8);
}

TEST_CASE("a planning copy remembers the digests of files") {
  const ResultsFolder results, copied;
  const auto file = results.write("data.npy", "bytes");
  Store store(results.path());
  store.remember_digest(state_of(file), "digest");
  store.write_planning_copy(copied.database());
  CHECK(Store(copied.path()).digest(state_of(file)) == "digest");
}

TEST_CASE("a planning copy takes the place of an earlier one, and the store goes on") {
  const ResultsFolder results, copied;
  Store store(results.path());
  fill(store);
  store.write_planning_copy(copied.database());
  const int64_t run = store.recorded_run("lab", "fits", "11")->id;
  store.begin_attempt(run, attempt_start());
  store.write_planning_copy(copied.database());
  CHECK(Store(copied.path()).recorded_run("lab", "fits", "11")->attempt == 2);
}
