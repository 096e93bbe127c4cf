#pragma once

#include "contract/families/model_config.h"
#include "contract/plan/run_plan.h"
#include "trainer/plan/planned_batches.h"

namespace fsdp {

// Fills in the plan's step time, MFU and HFU. The time comes from the calibration in the request's
// results. Without a usable calibration, it is estimated from the HFU that others measured on this
// kind of GPU, if that is known. The plan's assumptions say if the time is an estimate, or why a
// calibration cannot be used.
void plan_step_time(const PlanRequest& request, const RunSpec& spec, const ModelConfig& config,
                    const PlannedBatches& batches, RunPlan& plan);

}  // namespace fsdp
