#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "runner/store/database.h"

namespace fsdp {

enum class StoreUse {
  kCreate,    // for a run or a merge: creates a missing database
  kExisting,  // for all other commands: creates nothing
};

// Opens results.sqlite of a results folder, with this program's schema. Migrates an older version,
// and undoes a killed writer's change. With kExisting, this happens in a temporary copy if the
// folder cannot be written. If the folder has the files of runs, an empty index takes the place of
// a missing or damaged one, and of one of another version. Throws std::runtime_error, with a
// remedy, if the file is another program's database, which stays as it is. Also throws it if there
// are neither an index nor files.
Database open_results(const std::filesystem::path& results, StoreUse use);

// Returns an empty index that is deleted with the object.
Database temporary_index();

// Renames the index, if any, and makes an empty one, or a temporary one in a folder that cannot be
// written.
Database make_index_anew(const std::filesystem::path& results, StoreUse use);

// True if the folder has the files that results.sqlite indexes (run_files.h).
bool has_run_files(const std::filesystem::path& results);

// Renames an index that cannot be used to results.sqlite.damaged.
void set_index_aside(const std::filesystem::path& results);

// Throws if the database is not this program's, as open_results() does. Throws ConfigError if
// another program has given it a write-ahead log, because SQLite would leave files beside it.
void require_mergeable(const std::filesystem::path& file);

// Throws ConfigError if the folder's path is too long for SQLite to open a database in it.
void check_results_path(const std::filesystem::path& results);

// Returns the SQL of each version of the schema (PRAGMA user_version). The first entry turns an
// empty file into a database of the newest version. Each other entry i brings version i to i + 1.
// Entries need not add tables, indexes, views or nullable columns: missing ones are added
// afterwards. Only the first entry may change after a release.
std::span<const std::string> schema_versions();

// Brings the schema of `database`, which is ours or empty, to the last of `versions`, in one
// transaction. Writes nothing if the schema has this version. Throws ConfigError, and changes
// nothing, if another program or a newer fsdp-run wrote the database.
void migrate(Database& database, std::span<const std::string> versions = schema_versions());

}  // namespace fsdp
