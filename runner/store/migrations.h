#pragma once

#include <span>
#include <string>

#include "runner/store/database.h"

// Versions of the schema of results databases (PRAGMA user_version).
namespace fsdp {

// Returns the SQL of each version. The first entry turns an empty file into a database of the
// newest version. Each other entry i brings version i to i + 1. Entries need not add tables,
// indexes, views or nullable columns: missing ones are added afterwards. Only the first entry may
// change after a release.
std::span<const std::string> schema_versions();

// True if a database with this application_id is this program's.
bool is_ours(int64_t application_id, int64_t user_version);
// True if it also has this program's version.
bool is_current(int64_t application_id, int64_t user_version);

// Throws std::runtime_error: another program, or an fsdp-run before 0.1.0, wrote `file`.
[[noreturn]] void refuse_foreign(const std::filesystem::path& file);

// Throws std::runtime_error if this program did not write `database`.
void require_ours(Database& database);

// Brings the schema of `database`, which is ours or empty, to the last of `versions`, in one
// transaction. Writes nothing if it is there already. Throws std::runtime_error, and changes
// nothing, if another program or a newer one wrote it.
void migrate(Database& database, std::span<const std::string> versions = schema_versions());

}  // namespace fsdp
