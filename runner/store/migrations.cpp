#include "runner/store/migrations.h"

#include <array>

#include "contract/text/config_error.h"
#include "runner/store/schema.h"

namespace fsdp {
namespace {

constexpr int64_t kApplicationId = 0x66736472;  // "fsdr"

int64_t number(Database& database, const char* sql) {
  return Statement(database, sql).value<int64_t>().value();
}

int64_t user_version(Database& database) { return number(database, "pragma user_version"); }

int64_t application_id(Database& database) { return number(database, "pragma application_id"); }

bool holds_nothing(Database& database) {
  return application_id(database) == 0 && user_version(database) == 0 &&
         number(database, "select count(*) from sqlite_master") == 0;
}

// Adds to `database` the tables, indexes, columns and views of `schema` that it lacks.
void add_what_is_missing(Database& database, const std::string& schema) {
  Database whole(":memory:");
  whole.execute(schema);
  Statement objects(whole, "select type, name, sql from sqlite_master where sql is not null");
  Statement is_there(database, "select 1 from sqlite_master where (type, name) = (?, ?)");
  Statement has_column(database, "select 1 from pragma_table_xinfo(?) where name = ?");
  Statement columns(whole, "select name, type from pragma_table_xinfo(?)");
  const auto all = objects.rows<std::string, std::string, std::string>();
  for (const auto& [type, name, sql] : all) {
    if (type == "view") database.execute("drop view if exists " + name);
  }
  for (const auto& [type, name, sql] : all) {
    if (!is_there.value<int>(type, name)) {
      database.execute(sql);
    } else if (type == "table") {
      for (const auto& [column, column_type] : columns.rows<std::string, std::string>(name)) {
        if (has_column.value<int>(name, column)) continue;
        database.execute(fmt::format("alter table {} add column {} {}", name, column, column_type));
      }
    }
  }
}

}  // namespace

std::span<const std::string> schema_versions() {
  static const std::array kVersions = {
      schema(), std::string("drop view comparison_per_rank; drop view comparison;"
                            "alter table attempts drop column continues;"
                            "alter table attempts drop column other_runners;")};
  return kVersions;
}

bool is_ours(int64_t application_id, int64_t user_version) {
  return application_id == kApplicationId && user_version > 0;
}

bool is_current(int64_t application_id, int64_t user_version) {
  return application_id == kApplicationId && user_version == std::ssize(schema_versions());
}

void refuse_foreign(const std::filesystem::path& file) {
  throw ConfigError(file.string(), "",
                    "is not a database of fsdp-run 0.1.0 or later; move it away, or choose another "
                    "folder with --results");
}

void require_ours(Database& database) {
  if (!is_ours(application_id(database), user_version(database))) refuse_foreign(database.file());
}

void migrate(Database& database, std::span<const std::string> versions) {
  const int64_t newest = std::ssize(versions);
  const auto is_done = [&] {
    return application_id(database) == kApplicationId && user_version(database) == newest;
  };
  if (is_done()) return;
  Transaction transaction(database);
  if (!holds_nothing(database)) require_ours(database);
  const int64_t found = user_version(database);
  if (found > newest) {
    throw ConfigError(database.file().string(), "",
                      fmt::format("schema version {} was written by a newer fsdp-run; this one "
                                  "reads up to version {}; update fsdp-run, or choose another "
                                  "folder with --results",
                                  found, newest));
  }
  if (found == 0) {
    database.execute(versions.front());
  } else {
    for (const std::string& step : versions.subspan(static_cast<size_t>(found))) {
      database.execute(step);
    }
    add_what_is_missing(database, versions.front());
  }
  database.execute(
      fmt::format("pragma application_id = {}; pragma user_version = {}", kApplicationId, newest));
  transaction.commit();
}

}  // namespace fsdp
