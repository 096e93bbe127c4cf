#include "runner/store/results_database.h"

#include <sys/stat.h>

#include <sstream>

#include "contract/spec/yaml_value.h"
#include "tests/runner/store/store_fixture.h"

namespace fsdp {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("a file of another program is refused, and stays as it is") {
  const ResultsFolder results;
  const std::string tables =
      GENERATE("create table notes (text); ", "create table runs (id); pragma user_version = 3;",
               "create table runs (id); pragma user_version = 3; pragma journal_mode = wal;",
               "create table notes (text); pragma application_id = 7; pragma user_version = 6;",
               "vacuum; pragma user_version = 9;", "pragma user_version = -2;");
  CAPTURE(tables);
  Database(results.database()).execute(tables);
  const std::string before = read_text_file(results.database());
  const std::vector<std::string> names_before = names_in(results.path());
  REQUIRE_FALSE(before.empty());
  const StoreUse use = GENERATE(StoreUse::kCreate, StoreUse::kExisting);
  CHECK_THROWS_WITH(Store(results.path(), use), Contains(results.database().string()) &&
                                                    Contains("is not a database of fsdp-run") &&
                                                    Contains("--results"));
  CHECK(read_text_file(results.database()) == before);
  CHECK(names_in(results.path()) == names_before);
}

TEST_CASE("a database whose last page is cut short is refused: rows in it would be missing") {
  const ResultsFolder results;
  {
    Store store(results.path());
    running_run(store, 1);
  }
  std::filesystem::remove_all(results / "lists");  // of a version without files
  const auto bytes = std::filesystem::file_size(results.database());
  std::filesystem::resize_file(results.database(), bytes - 600);
  CHECK_THROWS_WITH(Store(results.path(), StoreUse::kExisting),
                    Contains(results.database().string()) && Contains("is cut short") &&
                        Contains("copy it once more"));
}

TEST_CASE("another schema with the same version is refused with the true reasons") {
  const ResultsFolder results;
  { const Store store(results.path()); }
  const std::string endless =
      " as with recursive c(x) as (select 1 union all select x + 1 from c) select x from c";
  const auto change = [&](const std::string& sql) { Database(results.database()).execute(sql); };
  change("create view mine" + endless);
  CHECK_NOTHROW(Store(results.path()));
  const auto [sql, name] = GENERATE_COPY(table<std::string, std::string>({
      {"drop view statuses; create view statuses" + endless, "statuses"},
      {"drop table experiment_texts; create view Experiment_Texts" + endless, "experiment_texts"},
      {"alter table steps drop column suspended", "steps.suspended"},
      {"drop table memory_peaks", "memory_peaks"},
  }));
  change(sql);
  const StoreUse use = GENERATE(StoreUse::kCreate, StoreUse::kExisting);
  CHECK_THROWS_WITH(Store(results.path(), use),
                    Contains(results.database().string()) &&
                        Contains("its '" + name + "' is another one than this fsdp-run's") &&
                        Contains("another commit of fsdp-run wrote the file, or another program"));
}

TEST_CASE("what is no file is not opened as a database") {
  const ResultsFolder results;
  SECTION("a folder") { std::filesystem::create_directory(results.database()); }
  SECTION("a pipe, which would be waited for") {
    REQUIRE(mkfifo(results.database().c_str(), 0600) == 0);
  }
  CHECK_THROWS_WITH(Store(results.path()), Contains("is not a database of fsdp-run"));
}

TEST_CASE("only a run makes a database") {
  const TemporaryFolder folder;
  const std::filesystem::path results = folder / "results";
  CHECK_THROWS_WITH(Store(results, StoreUse::kExisting),
                    Contains("holds no results yet; run an experiment first"));
  CHECK_FALSE(std::filesystem::exists(results));
  std::filesystem::create_directory(results);
  folder.write("results/results.sqlite", "");
  CHECK_THROWS_WITH(Store(results, StoreUse::kExisting), Contains("holds no results yet"));
  CHECK(std::filesystem::file_size(results / "results.sqlite") == 0);
  { Store(results, StoreUse::kCreate).plan(experiment("lab"), {}); }
  CHECK(Store(results, StoreUse::kExisting).experiments().size() == 1);
}

TEST_CASE("a folder too deep for SQLite is refused, with what to do, and nothing is created") {
  const TemporaryFolder folder;
  const int64_t folders = GENERATE(3, 30);
  std::filesystem::path results = folder.path();
  for (int64_t i = 0; i < folders; ++i) results /= std::string(200, 'd');
  const StoreUse use = GENERATE(StoreUse::kCreate, StoreUse::kExisting);
  CHECK_THROWS_WITH(Store(results, use), Contains("too long for SQLite") &&
                                             Contains("choose a folder with a shorter path"));
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("a path of the length that SQLite can just open is opened") {
  const TemporaryFolder folder;
  std::filesystem::path results = folder.path() / std::string(150, 'd') / std::string(150, 'd');
  constexpr size_t kLongest = 512;
  const size_t others = results.native().size() + std::string("//results.sqlite-journal").size();
  results /= std::string(kLongest - others, 'd');
  CHECK_NOTHROW(Store(results));
  results += 'd';
  CHECK_THROWS_WITH(Store(results), Contains("1 byte too long"));
}

}  // namespace
}  // namespace fsdp
