#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runner/experiment/doubling_series.h"
#include "runner/sweep/run_experiment.h"

namespace fsdp {

// Returns the value of a doubled key in this family that is expected to be the largest that fits.
using ExpectedValue = std::function<std::optional<int64_t>(
    const std::shared_ptr<const DoublingSeries>&, const std::string& family)>;

// Returns the largest value of the search that fits according to `predict`. nullopt if predictions
// are missing or only the host's memory limits the runs.
std::optional<int64_t> expected_largest(const std::shared_ptr<const DoublingSeries>& series,
                                        const PredictRun& predict);

// The number of runs saved if the search starts at `largest` and this value is correct.
int64_t runs_saved(const DoublingSeries& series, int64_t largest);

}  // namespace fsdp
