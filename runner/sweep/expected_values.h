#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runner/experiment/doubling_series.h"
#include "runner/sweep/run_experiment.h"

namespace fsdp {

// Which value of a doubled key, of that family, is expected to be the largest that fits.
using ExpectedValue = std::function<std::optional<int64_t>(
    const std::shared_ptr<const DoublingSeries>&, const std::string& family)>;

// What predictions say, of the values that the search comes to; absent where there are none, and
// where no limit is known but the host's memory.
std::optional<int64_t> expected_largest(const std::shared_ptr<const DoublingSeries>& series,
                                        const PredictRun& predict);

// How many runs a search takes less that begins at the value and finds it right.
int64_t runs_saved(const DoublingSeries& series, int64_t largest);

}  // namespace fsdp
