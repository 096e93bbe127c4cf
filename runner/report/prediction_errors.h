#pragma once

#include <optional>
#include <span>
#include <string>

#include "runner/store/comparison.h"

namespace fsdp {

// By how much what was predicted of a run is off, in percent of what was measured; above 0: too
// much was predicted. Absent where either is not known, and of runs that did not finish.
std::optional<double> memory_error_percent(const ComparisonRow& run);
std::optional<double> step_time_error_percent(const ComparisonRow& run);

// How good predictions of these runs were, in a sentence; empty: there are none.
std::string predictions_line(std::span<const ComparisonRow* const> runs);

}  // namespace fsdp
