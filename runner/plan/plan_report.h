#pragma once

#include <optional>
#include <string>
#include <vector>

#include "contract/plan/run_plan.h"
#include "runner/table/table.h"

// The output of `fsdp-run plan`. To add a column: add its line to plan_columns in
// runner/plan/plan_report.cpp, and its cell there.
namespace fsdp {

// A run and its plan, or the reason why the run has no plan.
struct PlannedRow {
  std::string point;
  RunSpec spec;
  std::string device;  // for people
  std::optional<RunPlan> plan;
  std::string problem;
  bool is_suggested = false;         // a changed version of another row's run
  bool has_other_method = false;     // a suggested version that another method trains
  std::optional<double> hours{};     // of all steps; nullopt: their number or time is not known
  std::optional<double> cost{};      // of these hours on all ranks; nullopt: no price is given
  std::vector<std::string> notes{};  // sentences below the table
};

struct PlanReport {
  std::string experiment;        // its name
  std::string profile{};         // empty: the experiment has none
  std::string profile_reason{};  // why it was taken
  std::vector<PlannedRow> rows;
  std::vector<std::string> remarks;
};

enum class PlanFormat { kTable, kMarkdown, kJson, kHtml };
constexpr auto enum_names(PlanFormat) {
  return std::array{"table"sv, "markdown"sv, "json"sv, "html"sv};
}

// Returns a table with a row for each run. The lines above the rows name the profile, the model and
// the device. Notes say why runs do not fit, with a remedy.
Table plan_table(const PlanReport& report);

// Returns the table, with the report's remarks below it. JSON is an array of objects with all
// figures of the plans. HTML is a page with charts and timelines. The lines of the format `table`
// have at most `width` characters; 0: any number.
std::string render_plans(PlanFormat format, const PlanReport& report, size_t width);

// True if the plan's step time comes from a calibration of the devices.
bool is_calibrated(const RunPlan& plan);

// "does not fit"; "?": not known.
std::string fit_text(Fit fit);

// Returns the needed and the available memory: "92.0 GiB of 79.0 GiB" of a device, or "744 GiB of
// 512 GiB of a node's memory".
std::string excess_text(const RunPlan& plan);

// Returns how to say how much memory there is.
std::string remedy_for_unknown_memory(const RunSpec& spec);

// Returns a change that saves memory: "use more ranks, or strategy.offload: optimizer".
std::string remedy_for(const RunSpec& spec, const RunPlan& plan);

}  // namespace fsdp
