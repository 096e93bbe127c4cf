#pragma once

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "contract/record/event.h"
#include "contract/record/step_trace.h"
#include "runner/store/store.h"

namespace fsdp {

using RankTraces = std::vector<std::pair<RunStarted, RankTrace>>;

// Returns the traces of the run's newest attempt, of the ranks that have left one. Throws
// std::runtime_error if a file is not what fsdp-train writes.
RankTraces traces_of(const Store& store, const ComparisonRow& run,
                     const std::filesystem::path& results);

// Returns how memory rises and falls in the first traced step, on the rank with the highest peak.
// Empty: no memory was traced.
std::vector<MemoryMoment> step_memory(const RankTraces& traces);

}  // namespace fsdp
