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
  bool is_suggested = false;         // another row's run with changes
  std::optional<double> hours{};     // of its steps; nullopt: these or their time are not known
  std::optional<double> cost{};      // of these hours of all ranks; nullopt: no price is given
  std::vector<std::string> notes{};  // sentences that stand below the table
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

// Returns a heading, a row for each run, and notes. The notes say why runs do not fit, with a
// remedy. json: an array of objects with all figures of the plans. html: a page with charts and
// timelines. A terminal's table has at most `width` columns; 0: any number.
std::string render_plans(PlanFormat format, const PlanReport& report, size_t width);

}  // namespace fsdp
