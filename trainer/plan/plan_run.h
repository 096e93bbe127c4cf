#pragma once

#include "contract/plan/run_plan.h"

namespace fsdp {

// Plans the run's memory and step time. Runs steps, an evaluation and the saving of a checkpoint on
// meta, which does everything except compute. Throws ConfigError if the run could not be built.
RunPlan plan_run(const PlanRequest& request);

// Answers requests, one line of JSON each, until the input ends. If a request fails, its answer has
// the reason.
void answer_plan_requests(std::istream& requests, std::ostream& answers);

}  // namespace fsdp
