#pragma once

#include <filesystem>

namespace fsdp {

class Database;

enum class StoreUse {
  kCreate,    // for a run or a merge: creates a missing database
  kExisting,  // for all other commands: creates nothing
};

// Opens results.sqlite of a results folder, with this program's schema. Migrates an older version,
// and undoes a killed writer's change. With kExisting, this happens in a temporary copy if the
// folder cannot be written. Throws std::runtime_error, with a remedy, for a database of another
// program or a newer version, which stays as it is. With kExisting, it also throws if there is
// none.
Database open_results(const std::filesystem::path& results, StoreUse use);

// Throws ConfigError if another program has given the database a write-ahead log. SQLite would
// leave files beside it.
void refuse_write_ahead_log(const std::filesystem::path& file);

// Throws ConfigError if the database has a view in the place of a table, or a view that is not this
// program's. Reading it might never end.
void require_own_views(Database& database);

// Throws ConfigError if the folder's path is too long for SQLite to open a database in it.
void check_results_path(const std::filesystem::path& results);

}  // namespace fsdp
