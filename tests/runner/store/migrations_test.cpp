#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "contract/spec/yaml_value.h"
#include "runner/store/results_database.h"
#include "runner/store/schema.h"
#include "tests/runner/store/store_fixture.h"

namespace fsdp {
namespace {

using Catch::Matchers::Contains;

constexpr int kApplicationId = 0x66736472;

void check_is_whole(const ResultsFolder& results, int version) {
  Database database(results.database());
  CHECK(Statement(database, "pragma user_version").value<int>() == version);
  CHECK(Statement(database, "pragma application_id").value<int>() == kApplicationId);
  CHECK(Statement(database, "pragma integrity_check").value<std::string>() == "ok");
  CHECK_FALSE(Statement(database, "pragma foreign_key_check").value<std::string>());
}

// The versions so far and one that is made up.
std::vector<std::string> with_next_version(const std::string& next) {
  std::vector<std::string> versions(schema_versions().begin(), schema_versions().end());
  versions.push_back(next);
  return versions;
}

}  // namespace

// Columns follow from the fields of structs, so a new or removed field changes the schema.
TEST_CASE("a change of the schema is meant: it needs a new version once this one is released") {
  const std::string file = std::string(FSDP_GOLDEN_FOLDER) + "/schema.sql";
  if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(file) << schema();
  CHECK(schema() == read_text_file(file));
}

TEST_CASE("an empty file becomes a database of the newest version") {
  const ResultsFolder results;
  { const Store store(results.path()); }
  check_is_whole(results, 4);
}

// Returns all tables, columns, indexes and views, in an order that migrations do not change.
std::string structure(const ResultsFolder& results) {
  return sqlite3(results,
                 "select m.type, m.name, x.name, x.type, x.[notnull], x.pk, x.hidden "
                 "from sqlite_master m left join pragma_table_xinfo(m.name) x "
                 "where m.type <> 'view' order by 1, 2, 3") +
         sqlite3(results, "select name, sql from sqlite_master where type = 'view' order by 1");
}

TEST_CASE("results of 0.1.0 keep what they hold and get what is new") {
  const ResultsFolder fresh, old;
  { const Store store(fresh.path()); }
  Database(old.database())
      .execute(read_text_file(std::string(FSDP_GOLDEN_FOLDER) + "/schema_0.1.0.sql") +
               "insert into experiments values ('lab', 'a title', '', '', '', '', '');"
               "pragma user_version = 1; pragma application_id = " +
               std::to_string(kApplicationId));
  { const Store store(old.path()); }
  check_is_whole(old, 4);
  CHECK(structure(old) == structure(fresh));
  CHECK(sqlite3(old, "select name, title from experiments") == "lab,\"a title\"\n");
}

TEST_CASE("the next version keeps every figure of this one") {
  const ResultsFolder results;
  {
    Store store(results.path());
    const int64_t run = running_run(store, 1);
    store.ingest(run, 1, 0, step_events(1, 5));
    store.end_attempt(run, 1, RunStatus::kFinished, "", 2'000);
  }
  const std::string before = sqlite3(results, "select * from comparison");
  REQUIRE_FALSE(before.empty());
  const auto versions = with_next_version("alter table steps add column colour text;");
  {
    Database database(results.database());
    migrate(database, versions);
    CHECK(Statement(database, "select count(*) from steps where colour is null").value<int>() == 5);
  }
  CHECK(sqlite3(results, "select * from comparison") == before);
  check_is_whole(results, 5);
  std::filesystem::remove_all(results / "lists");  // of a version without files
  CHECK_THROWS_WITH(Store(results.path()), Contains("written by a newer fsdp-run") &&
                                               Contains("reads up to version 4") &&
                                               Contains("update fsdp-run"));
}

TEST_CASE("a version that cannot be reached leaves the database as it was") {
  const ResultsFolder results;
  { const Store store(results.path()); }
  const std::string before = read_text_file(results.database());
  const auto versions = with_next_version("create table half (a); create table half (a);");
  {
    Database database(results.database());
    CHECK_THROWS_WITH(migrate(database, versions), Contains("half"));
  }
  CHECK(read_text_file(results.database()) == before);
}

TEST_CASE("a database of a version that is none is refused, and nothing is read as its migration") {
  const ResultsFolder results;
  { Store(results.path()).plan(experiment("lab"), {}); }
  const int version = GENERATE(-1, -64, -2'147'483'647, 0);
  const int id = GENERATE(0, kApplicationId);
  Database(results.database())
      .execute("pragma user_version = " + std::to_string(version) +
               "; pragma application_id = " + std::to_string(id));
  const std::string before = read_text_file(results.database());
  CHECK_THROWS_WITH(Store(results.path()), Contains(results.database().string()) &&
                                               Contains("not a database of fsdp-run"));
  CHECK(read_text_file(results.database()) == before);
}

TEST_CASE("results of before 0.1.0 are refused, with what to do") {
  const ResultsFolder results;
  const std::string id = GENERATE("0", "0x66736470");
  Database(results.database())
      .execute("create table runs (id); pragma user_version = 6; pragma application_id = " + id);
  const std::string before = read_text_file(results.database());
  CHECK_THROWS_WITH(Store(results.path()), Contains("not a database of fsdp-run 0.1.0 or later") &&
                                               Contains("move it away") && Contains("--results"));
  CHECK(read_text_file(results.database()) == before);
}

}  // namespace fsdp
