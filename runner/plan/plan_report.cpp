#include "runner/plan/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "contract/text/json.h"
#include "contract/text/utf8.h"
#include "runner/plan/plan_cells.h"
#include "runner/report/terminal_text.h"

namespace fsdp {
namespace {

constexpr size_t kNotesWidth = 80;

std::string table_text(const PlanReport& report, size_t width) {
  std::vector<TextColumn> columns;
  std::ranges::transform(plan_columns(), std::back_inserter(columns), &PlanColumn::text);
  std::vector<std::vector<std::string>> cells;
  std::ranges::transform(report.rows, std::back_inserter(cells), cells_of);
  const TextTable table = laid_out(columns, cells, width);
  const size_t notes_width = width == 0 ? kNotesWidth : std::min(width, kNotesWidth);
  std::string text;
  for (const std::string& line : heading_of(report)) text += wrapped("", line, 0, notes_width);
  if (!text.empty()) text += '\n';
  for (const std::string& line : table.heading) text += line + '\n';
  text += table.rule + '\n';
  for (const std::string& line : table.rows) text += line + '\n';
  for (const std::string& note : notes_of(report.rows)) text += wrapped("", note, 0, notes_width);
  for (const std::string& remark : report.remarks) {
    text += wrapped("", visible_line(remark), 0, notes_width);
  }
  return text;
}

std::string markdown_text(const PlanReport& report) {
  const auto line = [](const std::vector<std::string>& cells) {
    return fmt::format("| {} |\n", fmt::join(cells, " | "));
  };
  std::vector<std::string> headings;
  for (const PlanColumn& column : plan_columns()) {
    headings.push_back(column.text.heading);
    std::ranges::replace(headings.back(), '\n', ' ');
  }
  std::string text;
  for (const std::string& sentence : heading_of(report)) text += sentence + "\n\n";
  text += line(headings) + line(std::vector<std::string>(headings.size(), "---"));
  for (const PlannedRow& row : report.rows) {
    std::vector<std::string> cells = cells_of(row);
    for (std::string& cell : cells) {
      for (size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2) {
        cell.insert(at, "\\");
      }
    }
    text += line(cells);
  }
  for (const std::string& note : notes_of(report.rows)) text += "\n" + note + "\n";
  for (const std::string& remark : report.remarks) text += "\n" + visible_line(remark) + "\n";
  return text;
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

}  // namespace

std::string render_plans(PlanFormat format, const PlanReport& report, size_t width) {
  switch (format) {
    case PlanFormat::kTable:
      return table_text(report, width);
    case PlanFormat::kMarkdown:
      return markdown_text(report);
    case PlanFormat::kJson:
      return json_of(report);
    case PlanFormat::kHtml:
      return render_plan_page(report);
  }
  throw std::logic_error("not a format of plans");
}

}  // namespace fsdp
