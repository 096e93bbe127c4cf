#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/plan/plan_report.h"
#include "runner/report/text_table.h"

// Texts that all plan formats for people share.
namespace fsdp {

struct PlanColumn {
  TextColumn text;
  std::string_view documentation;
};

const std::vector<PlanColumn>& plan_columns();

// Returns a cell per column. "-": not known.
std::vector<std::string> cells_of(const PlannedRow& row);

// Returns two lines: profile, model, parameters, ranks and device; why this profile was taken.
// Empty if no row has a plan.
std::vector<std::string> heading_of(const PlanReport& report);

// Returns why rows do not fit, the rows' notes and the assumptions, each once.
std::vector<std::string> notes_of(const std::vector<PlannedRow>& rows);

// True if the plan's step time comes from a calibration of the devices.
bool is_calibrated(const RunPlan& plan);

// "does not fit"; "?": not known.
std::string fit_text(Fit fit);

// True unless the ranks of a node take more of its memory than there is.
bool host_fits(const RunPlan& plan);

// Returns the memory that the run needs, of the memory that there is: "92.0 GiB of 79.0 GiB", "744
// GiB of 512 GiB of a node's memory".
std::string excess_text(const RunPlan& plan);

// Returns the largest parts of the peak: "optimizer state 25.1 GiB, parameters 12.6 GiB".
std::string composition_text(const MemoryByUse& by_use);

// Returns a change that saves memory: "more ranks, or strategy.offload: optimizer".
std::string remedy_for(const RunSpec& spec, const RunPlan& plan);

// Defined in plan_html.cpp.
std::string render_plan_page(const PlanReport& report);

}  // namespace fsdp
