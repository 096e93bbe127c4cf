#pragma once

#include <string>

#include "contract/plan/run_plan.h"

namespace fsdp {

// A plan's verdict on a key's value in a search for the largest that fits. kTooLarge: no larger
// value fits either.
enum class ValueFit { kFits, kDoesNotFit, kTooLarge };

// `spec` is the planned run with the value. `key` is a path such as batch.size_per_rank.
ValueFit value_fit(const RunPlan& plan, const RunSpec& spec, const std::string& key);

}  // namespace fsdp
