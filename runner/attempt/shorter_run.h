#pragma once

#include <filesystem>
#include <string>

#include "runner/attempt/open_attempt.h"
#include "runner/store/store.h"

namespace fsdp {

// Where the run is to resume by itself (resume: auto) and has no checkpoint yet, gives it the
// newest one of a run that differs from it in fewer train.steps only. Not where the schedule makes
// the steps before it other ones than this run's would have been. Returns what the user is to be
// told; empty: nothing.
std::string take_over_checkpoint(const Store& store, const std::filesystem::path& results,
                                 const RunToLaunch& run);

}  // namespace fsdp
