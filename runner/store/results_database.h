#pragma once

#include <filesystem>

namespace fsdp {

class Database;

enum class StoreUse {
  kCreate,    // a run, and what is merged into: a database that is not there yet is made
  kExisting,  // all others: nothing is made where there is none
};

// results.sqlite of a results folder, of this program's schema. One of an older version is
// migrated, and what a killed writer left half done is undone; where the folder cannot be written,
// in a copy that goes with the object. Throws
// std::runtime_error that says what to do when it is another program's or a newer version's, which
// is left as it is, and with kExisting when there is none.
Database open_results(const std::filesystem::path& results, StoreUse use);

// Throws ConfigError if another program has given the database a write-ahead log: SQLite would
// leave files beside it.
void refuse_write_ahead_log(const std::filesystem::path& file);

// Throws ConfigError if the database has a view in the place of a table, or another view than this
// program's: reading it might never end.
void require_own_views(Database& database);

// Throws ConfigError when the folder's path is longer than SQLite can open a database in.
void check_results_path(const std::filesystem::path& results);

}  // namespace fsdp
