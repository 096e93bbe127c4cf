#pragma once

#include <set>
#include <string>
#include <vector>

#include "runner/plan/changes.h"
#include "runner/plan/experiment_plans.h"

// What `fsdp-run plan --suggest` shows of a run.
namespace fsdp {

struct Suggestions {
  // The run as it is, with each change that saves memory, and the settings that are remarked on.
  std::vector<PlannedRow> rows;
  // What fits, and which settings that compute the same are the fastest that do.
  std::vector<std::string> remarks;
  std::set<const Change*> changes;  // that rows have
};

Suggestions suggestions_for(ExperimentPlans& plans, const Run& run);

// What each change sets, and costs.
std::vector<std::string> legend_of(const std::set<const Change*>& changes);

}  // namespace fsdp
