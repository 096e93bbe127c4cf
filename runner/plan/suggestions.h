#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runner/plan/planner.h"

// The output of `fsdp-run plan --suggest` for a run.
namespace fsdp {

// The part of a run that a change affects. The result stays the same, up to rounding, unless the
// part is kOther or kMethod. A run has at most one change of each other part.
enum class ChangedPart { kOther, kMethod, kRecomputation, kSharding, kOffload };

// A change of one or two keys, and its cost.
// To add a change: add its line in runner/plan/suggestions.cpp. A value of `method` needs none.
struct Change {
  ChangedPart part;
  std::string_view name;  // "recompute MLPs"
  std::string set;        // "path=value", or two of them with a space between
  std::string_view cost;  // empty if the change saves no memory
};

struct Suggestions {
  // The run as it is, the run with each change that saves memory, and the settings in the remarks.
  // If the run does not fit, also the run with each other method that takes less memory.
  std::vector<PlannedRow> rows;
  // Say whether the run fits, and which settings with the same result are the fastest that fit.
  std::vector<std::string> remarks;
  std::set<const Change*> changes;  // used in rows
};

Suggestions suggestions_for(ExperimentPlans& plans, const Run& run);

// Returns a line for each change: the keys that it sets, and its cost.
std::vector<std::string> legend_of(const std::set<const Change*>& changes);

}  // namespace fsdp
