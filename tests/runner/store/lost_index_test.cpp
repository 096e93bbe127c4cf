#include <sys/stat.h>

#include <fstream>

#include "runner/store/results_unavailable.h"
#include "tests/runner/store/store_fixture.h"

// results.sqlite is deleted, replaced or damaged while a store has it open, or before.
namespace fsdp {
namespace {

constexpr int64_t kPageBytes = 4096;

std::vector<RunStatus> statuses(const Store& store) {
  std::vector<RunStatus> statuses;
  for (const RunRecord& run : store.runs()) statuses.push_back(run.status);
  return statuses;
}

const std::vector<RunStatus> kOneOfTwo{RunStatus::kFinished, RunStatus::kPlanned};

void copy_index(const ResultsFolder& results, const std::string& from, const std::string& to) {
  std::filesystem::copy_file(results / from, results / "new",
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::rename(results / "new", results / to);
}

// Overwrites the page with the runs. Opening the index reads other pages.
void damage_runs(const ResultsFolder& results) {
  const int page = std::stoi(sqlite3(results,
                                     "select rootpage from sqlite_master "
                                     "where name = 'runs'"));
  std::fstream stream(results.database(), std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp((page - 1) * kPageBytes);
  stream << std::string(kPageBytes, '\x7f');
}

}  // namespace

TEST_CASE_METHOD(StoreTest, "the sync of one run makes a deleted index anew") {
  const std::vector<RunRecord> runs = plan_two(store);
  std::filesystem::remove(results.database());
  store.sync({runs[1].folder});
  CHECK(statuses(store) == kOneOfTwo);
  CHECK(statuses(Store(results.path(), StoreUse::kExisting)) == kOneOfTwo);
}

TEST_CASE_METHOD(StoreTest, "the sync of one run brings an older copy up to date") {
  const std::vector<RunRecord> runs = plan_two(store);
  copy_index(results, "results.sqlite", "older");
  const std::vector more{planned_run("one", 1), planned_run("three", 1, "third")};
  store.plan(experiment("lab"), in_order(more));
  copy_index(results, "older", "results.sqlite");
  store.sync({runs[0].folder});
  CHECK(store.runs().size() == 3);
  CHECK(store.recorded_run("lab", "three", "third")->current);
  CHECK_FALSE(store.recorded_run("lab", "two", "another")->current);
}

TEST_CASE_METHOD(StoreTest, "a call to a replaced index fails, and succeeds after a sync") {
  const std::vector<RunRecord> runs = plan_two(store);
  std::filesystem::remove(results.database());
  CHECK_THROWS_AS(store.begin_attempt(runs[1].id, attempt_start()), IndexDamaged);
  store.sync({});
  store.end_attempt(runs[1].id, 1, RunStatus::kFailed, "no luck", 3'000);
  CHECK(store.run(runs[1].id)->status == RunStatus::kFailed);
}

TEST_CASE_METHOD(StoreTest, "an index that another program emptied is made anew") {
  const std::vector<RunRecord> runs = plan_two(store);
  std::filesystem::resize_file(results.database(), 0);
  CHECK_THROWS_AS(store.runs(), IndexDamaged);
  store.sync({runs[0].folder});
  CHECK(statuses(store) == kOneOfTwo);
}

TEST_CASE_METHOD(StoreTest, "an index that another program emptied, and fills anew, is made anew") {
  const std::vector<RunRecord> runs = plan_two(store);
  std::filesystem::resize_file(results.database(), 0);
  sqlite3(results, "create table first (id)");
  CHECK_THROWS_AS(store.runs(), IndexDamaged);
  store.sync({runs[0].folder});
  CHECK(statuses(store) == kOneOfTwo);
}

TEST_CASE("a store that met damage in a query leaves an index that is made anew") {
  const ResultsFolder results;
  plan_two(*std::make_unique<Store>(results.path()));
  damage_runs(results);
  CHECK_THROWS_AS(Store(results.path()).runs(), IndexDamaged);
  CHECK(statuses(Store(results.path(), StoreUse::kExisting)) == kOneOfTwo);
  CHECK(std::filesystem::exists(results / "results.sqlite.damaged"));
}

TEST_CASE("an index of an older version, which its tables are not, is made anew") {
  const ResultsFolder results;
  plan_two(*std::make_unique<Store>(results.path()));
  sqlite3(results, "pragma user_version = 1");
  CHECK(statuses(Store(results.path(), StoreUse::kExisting)) == kOneOfTwo);
}

TEST_CASE("the journal of an index that was read-only becomes writable with it") {
  const ResultsFolder results;
  plan_two(*std::make_unique<Store>(results.path()));
  const std::filesystem::path journal = results / "results.sqlite-journal";
  REQUIRE(chmod(journal.c_str(), 0444) == 0);
  const Store store(results.path());
  struct stat status {};
  REQUIRE(stat(journal.c_str(), &status) == 0);
  CHECK((status.st_mode & S_IWUSR) != 0);
}

}  // namespace fsdp
