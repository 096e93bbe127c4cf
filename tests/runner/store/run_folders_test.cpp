#include "runner/store/run_folders.h"

#include <set>

#include "tests/runner/store/store_fixture.h"

// Tests that each run has a folder of its own.
namespace fsdp {
namespace {

using Catch::Matchers::Contains;
using std::filesystem::path;

RunRecord wanting(const std::string& point, const path& folder,
                  const std::string& hash = "0123456789abcdef") {
  RunRecord run = planned_run(point, 1, hash);
  run.folder = folder;
  return run;
}

path folder_of(Store& store, const std::string& experiment_name, const RunRecord& run) {
  return store.plan(experiment(experiment_name), std::vector{run}).front().folder;
}

TEST_CASE_METHOD(StoreTest, "runs that want one folder get one each, and keep it") {
  const path wanted = "runs/lab/a-01234567";
  const std::vector<std::pair<std::string, RunRecord>> runs{
      {"my lab", wanting("a", wanted)},
      {"my-lab", wanting("a", wanted)},
      {"lab", wanting("a b", wanted)},
      {"lab", wanting("a b", wanted, "01234567ffffffff")}};
  std::vector<path> folders;
  for (const auto& [name, run] : runs) folders.push_back(folder_of(store, name, run));
  CHECK(folders[0] == wanted);
  CHECK(std::set(folders.begin(), folders.end()).size() == runs.size());
  for (size_t i = runs.size(); i-- > 0;) {
    CHECK(folder_of(store, runs[i].first, runs[i].second) == folders[i]);
  }
  for (const path& folder : folders) CHECK(is_run_folder(folder));
}

TEST_CASE_METHOD(
    StoreTest,
    "a run keeps the folder that was recorded when its folder would be called otherwise") {
  folder_of(store, "lab", wanting("2 layers", "runs/lab/2-layers-01234567"));
  CHECK(folder_of(store, "lab", wanting("2 layers", "runs/lab/2-layers~1-01234567")) ==
        "runs/lab/2-layers-01234567");
}

TEST_CASE_METHOD(
    StoreTest, "a run that shares its folder with another since an earlier version gets its own") {
  folder_of(store, "lab", wanting("2-layers", "runs/lab/2-layers-01234567"));
  folder_of(store, "other", wanting("2 layers", "runs/other/2-layers~1-01234567"));
  Database(results.database()).execute("update runs set folder = 'runs/lab/2-layers-01234567'");
  CHECK(folder_of(store, "other", wanting("2 layers", "runs/other/2-layers~1-01234567")) ==
        "runs/other/2-layers~1-01234567");
  CHECK(folder_of(store, "lab", wanting("2-layers", "runs/lab/2-layers-01234567")) ==
        "runs/lab/2-layers-01234567");
}

TEST_CASE_METHOD(StoreTest,
                 "a folder that is recorded outside of the results' runs is not used again") {
  const auto run = wanting("a", "runs/lab/a-01234567");
  folder_of(store, "lab", run);
  const std::string recorded =
      GENERATE("/tmp/elsewhere", "runs/lab/../../../x", "../runs/lab/a", "runs", "runs/lab", "");
  Database(results.database()).execute("update runs set folder = '" + recorded + "'");
  CHECK(folder_of(store, "lab", run) == "runs/lab/a-01234567");
}

TEST_CASE_METHOD(StoreTest, "nothing is planned in an experiment that was merged from elsewhere") {
  const auto run = wanting("a", "runs/alice-lab/a-01234567");
  folder_of(store, "alice/lab", run);
  Database(results.database())
      .execute("update experiments set source = 'alice'; update runs set folder = '../alice/x'");
  CHECK_THROWS_WITH(store.plan(experiment("alice/lab"), std::vector{run}),
                    Contains("'alice/lab' were merged from 'alice'") && Contains("rename"));
  CHECK_THROWS_WITH(store.plan_one_more("alice/lab", run), Contains("merged from 'alice'"));
  CHECK(store.run(1)->folder == "../alice/x");
}

TEST_CASE_METHOD(StoreTest, "a run whose folder a merged run claims keeps it") {
  const auto run = wanting("a", "runs/lab/a-01234567");
  folder_of(store, "lab", run);
  folder_of(store, "eve/lab", wanting("a", "runs/eve-lab/a-01234567"));
  Database(results.database())
      .execute(
          "update experiments set source = 'eve' where name = 'eve/lab';"
          "update runs set folder = 'runs/lab/a-01234567' where experiment = 'eve/lab'");
  CHECK(folder_of(store, "lab", run) == "runs/lab/a-01234567");
}

TEST_CASE("a folder is a run's own when links lead nowhere else") {
  const ResultsFolder results, elsewhere;
  std::filesystem::create_directories(elsewhere / "runs/lab/a");
  std::filesystem::create_directories(results / "runs/lab/a");
  CHECK(is_own_run_folder(results.path(), "runs/lab/a"));
  CHECK_FALSE(is_own_run_folder(results.path(), "runs/lab"));
  CHECK_FALSE(is_own_run_folder(results.path(), "runs/lab/.."));
  CHECK_FALSE(is_own_run_folder(results.path(), "runs/lab/b"));
  CHECK_FALSE(is_own_run_folder(results.path(), results / "runs/lab/a"));
  std::filesystem::create_directory_symlink(elsewhere / "runs/lab/a", results / "runs/lab/b");
  std::filesystem::create_directory_symlink(results / "runs/lab", results / "runs/linked");
  CHECK_FALSE(is_own_run_folder(results.path(), "runs/lab/b"));
  CHECK_FALSE(is_own_run_folder(results.path(), "runs/linked/a"));

  const ResultsFolder with_runs_elsewhere;  // as if on another file system
  std::filesystem::create_directory_symlink(elsewhere / "runs", with_runs_elsewhere / "runs");
  CHECK(is_own_run_folder(with_runs_elsewhere.path(), "runs/lab/a"));
}

}  // namespace
}  // namespace fsdp
