#pragma once

#include "contract/plan/run_plan.h"

namespace fsdp {

// Runs a step, an evaluation and the saving of a checkpoint of the run on meta, where it does all
// that it does on the device but compute, and says what memory that takes. Throws ConfigError where
// the run could not be built.
RunPlan plan_run(const PlanRequest& request);

// Answers requests, a line of JSON each, until the input ends: what fails says why in its answer.
void answer_plan_requests(std::istream& requests, std::ostream& answers);

}  // namespace fsdp
