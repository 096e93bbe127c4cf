#pragma once

#include <optional>
#include <string>
#include <vector>

#include "contract/plan/run_plan.h"

// What `fsdp-run plan` prints.
namespace fsdp {

// A run and its plan, or why it has none.
struct PlannedRow {
  std::string point;
  RunSpec spec;
  std::string device;  // for people
  std::optional<RunPlan> plan;
  std::string problem;
};

enum class PlanFormat { kTable, kMarkdown, kJson };
constexpr auto enum_names(PlanFormat) { return std::array{"table"sv, "markdown"sv, "json"sv}; }

// A row a run, and below the table what fills the memory of those that do not fit, with a remedy.
// json: an array of objects, with all that a plan says. A terminal's table has at most `width`
// columns; 0: any number.
std::string render_plans(PlanFormat format, const std::vector<PlannedRow>& rows, size_t width);

// "optimizer state 25.1 GiB and parameters 12.6": what most of the peak is.
std::string composition_text(const MemoryByUse& by_use);

// What a user may do about it: "shard it with strategy.kind fsdp".
std::string remedy_for(const RunSpec& spec, const RunPlan& plan);

}  // namespace fsdp
