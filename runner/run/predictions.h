#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "contract/plan/run_plan.h"
#include "runner/experiment/doubling_series.h"
#include "runner/run/run_loop.h"
#include "runner/store/attempts.h"

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

// Returns the parts of a plan that are stored beside measurements. The peak covers only the steps,
// like the ranks' reports. It leaves out start, evaluation and checkpoints. The step time is
// present only if the plan is calibrated.
Prediction prediction_of(const RunPlan& plan);

}  // namespace fsdp
