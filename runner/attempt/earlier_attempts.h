#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "runner/attempt/open_attempt.h"

namespace fsdp {

// For a job that may have been requeued: what is left of `runs` to launch. Attempts that were begun
// when the job ran before are imported, and their ends recorded. A run that ended by itself gives
// way to the one that `follow_up` makes follow it, which may have been begun as well; one that was
// cut short goes on. Every run is recorded as a task of `job`, by the store's number.
std::vector<RunToLaunch> left_to_launch(
    std::vector<RunToLaunch> runs, const RunListeners& listeners, int64_t job,
    const std::function<std::optional<RunToLaunch>(const RunToLaunch&, RunStatus)>& follow_up);

}  // namespace fsdp
