#pragma once

#include "contract/families/model_config.h"
#include "contract/plan/run_plan.h"
#include "trainer/plan/planned_batches.h"

namespace fsdp {

// Fills in the time of a step if the request's results hold a calibration for the run. If the
// calibration cannot be used, the plan's assumptions say why.
void plan_step_time(const PlanRequest& request, const RunSpec& spec, const ModelConfig& config,
                    const PlannedBatches& batches, RunPlan& plan);

}  // namespace fsdp
