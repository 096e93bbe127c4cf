#include "contract/text/json.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "runner/report/formats.h"

namespace fsdp {
namespace {

// Returns a list with one line per item.
std::string lines_of(const std::vector<std::string>& items) {
  return fmt::format("[{}{}]", items.empty() ? "" : "\n", fmt::join(items, ",\n"));
}

}  // namespace

std::string render_json(const PreparedReport& prepared) {
  std::vector<std::string> answers, rows, warnings, notes;
  for (const Block& block : prepared.blocks) {
    for (const auto& [question, text] : block.answers) {
      JsonObject object;
      if (!block.title.empty()) object.add("group", block.title);
      answers.push_back(object.add("question", question).add("text", text).text());
    }
  }
  for (const ReportRow& row : prepared.rows) {
    JsonObject object;
    for (const Column& column : prepared.columns) object.add(column.name, column.value(row));
    rows.push_back(object.text());
  }
  for (const auto& [name, text] : prepared.warnings) {
    warnings.push_back(JsonObject().add("name", name).add("text", text).text());
  }
  std::ranges::transform(prepared.lines_and_reasons(), std::back_inserter(notes),
                         json_text<std::string>);
  return fmt::format(
      "{{\"title\":{},\n\"answers\":{},\n\"rows\":{},\n\"warnings\":{},\n\"notes\":{}}}\n",
      json_text(prepared.report.title), lines_of(answers), lines_of(rows), lines_of(warnings),
      lines_of(notes));
}

}  // namespace fsdp
