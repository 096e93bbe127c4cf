#pragma once

#include "contract/families/model_config.h"
#include "contract/plan/run_plan.h"
#include "trainer/plan/planned_batches.h"

namespace fsdp {

// Fills in how long a step of the run takes, where there is a calibration for it in the request's
// results, and says why where there is one that cannot be used.
void plan_step_time(const PlanRequest& request, const RunSpec& spec, const ModelConfig& config,
                    const PlannedBatches& batches, RunPlan& plan);

}  // namespace fsdp
