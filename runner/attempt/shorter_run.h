#pragma once

#include <filesystem>
#include <string>

#include "runner/attempt/open_attempt.h"
#include "runner/store/store.h"

namespace fsdp {

// Where the run is to resume by itself (resume: auto) and has no checkpoint yet, gives it those of
// the run that differs from it in fewer train.steps only and came farthest, and records that this
// attempt continues it. Not where the schedule makes the steps before other ones than this run's
// would have been, nor where that fails: then the run begins anew. Returns what the user is to be
// told; empty: nothing.
std::string take_over_checkpoints(Store& store, const std::filesystem::path& results,
                                  const RunToLaunch& run, int attempt);

}  // namespace fsdp
