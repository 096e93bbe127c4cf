#pragma once

#include "runner/store/database.h"

namespace fsdp {

// Throws std::runtime_error when `database` was not written by this program: by its application_id,
// which a run sets when it creates or migrates, or, for versions 1 to 5, by its tables.
void require_ours(Database& database);

// Brings the schema of `database`, which is ours or holds nothing, to this program's version
// (PRAGMA user_version), in one transaction; does not write when it is there already. Throws
// std::runtime_error when another program or a newer one wrote it, and changes nothing then.
void migrate(Database& database);

}  // namespace fsdp
