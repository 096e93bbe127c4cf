#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/plan/plan_report.h"
#include "runner/report/text_table.h"

// What every format of plans for people is made of.
namespace fsdp {

struct PlanColumn {
  TextColumn text;
  std::string_view documentation;
};

const std::vector<PlanColumn>& plan_columns();

// A cell per column; "-": not known.
std::vector<std::string> cells_of(const PlannedRow& row);

// What the rows are planned for, why those that do not fit do not, and what was taken to be so.
std::vector<std::string> notes_of(const std::vector<PlannedRow>& rows);

// "does not fit"; "?": not known.
std::string fit_text(Fit fit);

// "optimizer state 25.1 GiB and parameters 12.6": what most of the peak is.
std::string composition_text(const MemoryByUse& by_use);

// What a user may do about it: "shard it with strategy.kind fsdp".
std::string remedy_for(const RunSpec& spec, const RunPlan& plan);

// In a file of its own.
std::string render_plan_page(const PlanReport& report);

}  // namespace fsdp
