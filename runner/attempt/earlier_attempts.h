#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "runner/attempt/open_attempt.h"

namespace fsdp {

// Returns the part of `runs` that a job, which may have been requeued, must still launch. Attempts
// of the job's earlier starts are imported, and their ends recorded. A run that ended by itself is
// replaced by its `follow_up`, if any, which may have been begun as well. A run that was cut short
// goes on. Every run is recorded as a task of `job`, a number of the store.
std::vector<RunToLaunch> left_to_launch(
    std::vector<RunToLaunch> runs, const RunListeners& listeners, int64_t job,
    const std::function<std::optional<RunToLaunch>(const RunToLaunch&, RunStatus)>& follow_up);

}  // namespace fsdp
