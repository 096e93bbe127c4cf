#pragma once

#include <set>
#include <string>
#include <vector>

#include "runner/plan/changes.h"
#include "runner/plan/experiment_plans.h"

// The output of `fsdp-run plan --suggest` for a run.
namespace fsdp {

struct Suggestions {
  // The run as it is, the run with each change that saves memory, and the settings in the remarks.
  std::vector<PlannedRow> rows;
  // Say whether the run fits, and which settings with the same result are the fastest that fit.
  std::vector<std::string> remarks;
  std::set<const Change*> changes;  // used in rows
};

Suggestions suggestions_for(ExperimentPlans& plans, const Run& run);

// Returns a line for each change: the keys that it sets, and its cost.
std::vector<std::string> legend_of(const std::set<const Change*>& changes);

}  // namespace fsdp
