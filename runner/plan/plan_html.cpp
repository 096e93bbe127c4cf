#include "contract/text/json.h"
#include "runner/plan/plan_cells.h"
#include "runner/report/html_assets.h"
#include "runner/report/html_page.h"

namespace fsdp {
namespace {

JsonObject column_data(const PlanColumn& column) {
  return JsonObject()
      .add("heading", column.text.heading)
      .add("documentation", column.documentation)
      .add("right", !column.text.is_left);
}

JsonObject run_data(const PlannedRow& row) {
  JsonObject data;
  data.add("name", row.point);
  if (row.plan) data.add("plan", *row.plan);
  return data.add("cells", cells_of(row));
}

}  // namespace

// Returns the page. html/plan.js reads its data.
std::string render_plan_page(const PlanReport& report) {
  std::vector<JsonObject> columns, runs;
  for (const PlanColumn& column : plan_columns()) columns.push_back(column_data(column));
  for (const PlannedRow& row : report.rows) runs.push_back(run_data(row));
  return html_page({.title = "Plan of " + report.experiment,
                    .sections = kPlanSections,
                    .script = kPlanScript,
                    .data = JsonObject()
                                .add("columns", columns)
                                .add("runs", runs)
                                .add("heading", heading_of(report))
                                .add("notes", notes_of(report.rows))
                                .add("remarks", report.remarks)
                                .text()});
}

}  // namespace fsdp
