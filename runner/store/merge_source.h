#pragma once

#include "runner/store/database.h"
#include "runner/store/merge.h"

namespace fsdp {

// A copy of the source's database, migrated, in which all that is taken by its key or read by its
// name can be: rows refer to rows that are there, digests are those of their texts, folders lie in
// the source, ranks and attempts have numbers that a run can have. Throws std::runtime_error that
// says what cannot. The source is only read.
Database sound_copy(const MergeSource& source);

}  // namespace fsdp
