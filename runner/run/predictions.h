#pragma once

#include "contract/plan/run_plan.h"
#include "runner/store/attempts.h"

namespace fsdp {

// Returns the parts of a plan that are stored beside measurements. The peak covers only the steps,
// like the ranks' reports. It leaves out start, evaluation and checkpoints. The step time is
// present only if the plan is calibrated.
Prediction prediction_of(const RunPlan& plan);

}  // namespace fsdp
