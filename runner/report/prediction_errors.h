#pragma once

#include <optional>
#include <span>
#include <string>

#include "runner/store/comparison.h"

namespace fsdp {

// Returns the error of a run's prediction, in percent of the measured value. A positive error means
// that the prediction was too large. nullopt if either is not known or the run did not finish.
std::optional<double> memory_error_percent(const ComparisonRow& run);
std::optional<double> step_time_error_percent(const ComparisonRow& run);

// Returns a sentence about the errors of the predictions. Empty: there are none.
std::string predictions_line(std::span<const ComparisonRow* const> runs);

}  // namespace fsdp
