#pragma once

#include "contract/plan/run_plan.h"
#include "runner/store/attempts.h"

namespace fsdp {

// What is stored of a plan, to be laid beside what is measured: the peak of steps, which is what
// ranks report, without that of the start, evaluation and checkpoints; and the time of a step only
// where it follows from a calibration.
Prediction prediction_of(const RunPlan& plan);

}  // namespace fsdp
