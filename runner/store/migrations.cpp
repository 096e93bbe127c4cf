#include "runner/store/migrations.h"

#include <array>

#include "runner/store/schema_version_1.h"
#include "runner/store/schema_version_2.h"
#include "runner/store/schema_version_3.h"
#include "runner/store/schema_version_4.h"
#include "runner/store/schema_version_5.h"

namespace fsdp {
namespace {

// Entry i brings version i to i + 1. Entries are never changed once released.
constexpr std::array kMigrations = {kSchemaVersion1, kSchemaVersion2, kSchemaVersion3,
                                    kSchemaVersion4, kSchemaVersion5};

int64_t user_version(Database& database) {
  return Statement(database, "pragma user_version").value<int64_t>().value();
}

}  // namespace

void migrate(Database& database) {
  constexpr int64_t kCurrent = kMigrations.size();
  if (user_version(database) == kCurrent) return;
  Transaction transaction(database);
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
  database.execute("pragma user_version = " + std::to_string(kCurrent));
  transaction.commit();
}

}  // namespace fsdp
