#pragma once

#include <span>
#include <string>

#include "runner/store/database.h"

// Versions of the schema of results databases (PRAGMA user_version).
namespace fsdp {

// The first entry makes an empty file a database of the newest version. Each other entry i brings
// version i to i + 1. Tables, indexes, views and columns that may be null need no text there: those
// that are missing are added afterwards. Entries but the first are never changed once released.
std::span<const std::string> schema_versions();

// Whether a database with this application_id is this program's.
bool is_ours(int64_t application_id, int64_t user_version);
// And has this program's version.
bool is_current(int64_t application_id, int64_t user_version);

// Throws std::runtime_error that says of `file` that another program wrote it, or an fsdp-run
// before 0.1.0.
[[noreturn]] void refuse_foreign(const std::filesystem::path& file);

// Throws std::runtime_error when `database` was not written by this program.
void require_ours(Database& database);

// Brings the schema of `database`, which is ours or holds nothing, to the last of `versions`, in
// one transaction; does not write when it is there already. Throws std::runtime_error when another
// program or a newer one wrote it, and changes nothing then.
void migrate(Database& database, std::span<const std::string> versions = schema_versions());

}  // namespace fsdp
