#pragma once

#include "runner/store/database.h"

namespace fsdp {

// Whether a database with this application_id and user_version may be this program's. One of
// versions 1 to 5 has no id, and is when it holds its tables.
bool may_be_ours(int64_t application_id, int64_t user_version);
bool is_current(int64_t application_id, int64_t user_version);

// Throws std::runtime_error that says of `file` that another program wrote it.
[[noreturn]] void refuse_foreign(const std::filesystem::path& file);

// Throws std::runtime_error when `database` was not written by this program.
void require_ours(Database& database);

// Brings the schema of `database`, which is ours or holds nothing, to this program's version
// (PRAGMA user_version), in one transaction; does not write when it is there already. Throws
// std::runtime_error when another program or a newer one wrote it, and changes nothing then.
void migrate(Database& database);

}  // namespace fsdp
