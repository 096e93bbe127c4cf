#pragma once

#include "runner/store/database.h"

namespace fsdp {

// Brings the schema of `database` to this program's version (PRAGMA user_version), in one
// transaction; does not write when it is there already. Throws std::runtime_error when a newer
// program wrote it.
void migrate(Database& database);

}  // namespace fsdp
