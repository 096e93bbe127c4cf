#include "runner/store/migrations.h"

#include <array>

#include "runner/store/schema_version_1.h"
#include "runner/store/schema_version_2.h"
#include "runner/store/schema_version_3.h"
#include "runner/store/schema_version_4.h"
#include "runner/store/schema_version_5.h"
#include "runner/store/schema_version_6.h"

namespace fsdp {
namespace {

// Entry i brings version i to i + 1. Entries are never changed once released.
constexpr std::array kMigrations = {kSchemaVersion1, kSchemaVersion2, kSchemaVersion3,
                                    kSchemaVersion4, kSchemaVersion5, kSchemaVersion6};
constexpr int64_t kCurrent = kMigrations.size();
constexpr int64_t kLastWithoutId = 5;
constexpr int64_t kApplicationId = 0x66736470;  // "fsdp"

int64_t number(Database& database, const char* sql) {
  return Statement(database, sql).value<int64_t>().value();
}

int64_t user_version(Database& database) { return number(database, "pragma user_version"); }

int64_t application_id(Database& database) { return number(database, "pragma application_id"); }

bool holds_nothing(Database& database) {
  return application_id(database) == 0 && user_version(database) == 0 &&
         number(database, "select count(*) from sqlite_master") == 0;
}

bool is_ours(Database& database) {
  const int64_t id = application_id(database);
  if (!may_be_ours(id, user_version(database))) return false;
  constexpr int64_t kTables = 5;
  return id == kApplicationId ||
         number(database,
                "select count(*) from sqlite_master where type = 'table' "
                "and name in ('experiments', 'runs', 'attempts', 'ranks', 'steps')") == kTables;
}

}  // namespace

bool may_be_ours(int64_t application_id, int64_t user_version) {
  if (user_version <= 0) return false;
  return application_id == kApplicationId ||
         (application_id == 0 && user_version <= kLastWithoutId);
}

bool is_current(int64_t application_id, int64_t user_version) {
  return application_id == kApplicationId && user_version == kCurrent;
}

void refuse_foreign(const std::filesystem::path& file) {
  throw std::runtime_error(file.string() +
                           ": is not a database of fsdp-run; move it away, or choose another " +
                           "folder with --results");
}

void require_ours(Database& database) {
  if (!is_ours(database)) refuse_foreign(database.file());
}

void migrate(Database& database) {
  if (is_current(application_id(database), user_version(database))) return;
  Transaction transaction(database);
  if (!holds_nothing(database)) require_ours(database);
  const int64_t found = user_version(database);
  if (found > kCurrent) {
    throw std::runtime_error(database.file().string() + ": schema version " +
                             std::to_string(found) + " was written by a newer fsdp-run; this one " +
                             "reads up to version " + std::to_string(kCurrent) +
                             "; update fsdp-run, or choose another folder with --results");
  }
  for (int64_t version = found; version < kCurrent; ++version) {
    database.execute(kMigrations[static_cast<size_t>(version)]);
  }
  database.execute("pragma application_id = " + std::to_string(kApplicationId));
  database.execute("pragma user_version = " + std::to_string(kCurrent));
  transaction.commit();
}

}  // namespace fsdp
