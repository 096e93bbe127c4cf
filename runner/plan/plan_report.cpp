#include "runner/plan/plan_report.h"

#include <stdexcept>

#include "base/text/json.h"
#include "base/text/utf8.h"
#include "runner/page/html_page.h"

namespace fsdp {
namespace {

constexpr size_t kTextWidth = 80;

Table with_remarks(Table table, const PlanReport& report) {
  for (const std::string& remark : report.remarks) table.notes.push_back(visible_line(remark));
  return table;
}

std::string json_of(const PlanReport& report) {
  std::vector<JsonObject> objects;
  for (const PlannedRow& row : report.rows) {
    JsonObject& object = objects.emplace_back();
    object.add("point", row.point).add("profile", report.profile);
    object.add("ranks", row.spec.strategy.ranks).add("device", row.device);
    if (row.plan) object.add_fields(*row.plan);
    object.add("fits", row.plan && row.plan->fit != Fit::kUnknown
                           ? std::optional(row.plan->fit != Fit::kDoesNotFit)
                           : std::nullopt);
    object.add("hours", row.hours).add("cost", row.cost);
    object.add("problem", row.problem).add("notes", row.notes);
  }
  return json_text(objects) + '\n';
}

JsonObject column_data(const Column& column) {
  return JsonObject()
      .add("heading", column.heading)
      .add("documentation", column.documentation)
      .add("right", !column.is_left);
}

JsonObject run_data(const PlannedRow& row, const std::vector<Cell>& cells) {
  std::vector<std::string> texts;
  for (const Cell& cell : cells) texts.push_back(cell.text);
  JsonObject data;
  data.add("name", row.point);
  if (row.plan) data.add("plan", *row.plan);
  return data.add("cells", texts);
}

// Returns the page. html/plan.js reads its data.
std::string page_of(const PlanReport& report) {
  const Table table = plan_table(report);
  const Block& block = table.blocks.front();
  std::vector<JsonObject> columns, runs;
  for (const Column& column : table.columns) columns.push_back(column_data(column));
  for (size_t i = 0; i < report.rows.size(); ++i) {
    runs.push_back(run_data(report.rows[i], block.rows[i].cells));
  }
  return html_page({.title = "Plan of " + report.experiment,
                    .sections = kPlanSections,
                    .script = kPlanScript,
                    .data = JsonObject()
                                .add("columns", columns)
                                .add("runs", runs)
                                .add("heading", block.introduction)
                                .add("notes", table.notes)
                                .add("remarks", report.remarks)
                                .text()});
}

}  // namespace

std::string render_plans(PlanFormat format, const PlanReport& report, size_t width) {
  switch (format) {
    case PlanFormat::kTable:
      return table_text(with_remarks(plan_table(report), report),
                        {.width = width, .text_width = kTextWidth});
    case PlanFormat::kMarkdown:
      return table_markdown(with_remarks(plan_table(report), report));
    case PlanFormat::kJson:
      return json_of(report);
    case PlanFormat::kHtml:
      return page_of(report);
  }
  throw std::logic_error("not a format of plans");
}

}  // namespace fsdp
