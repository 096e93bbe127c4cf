#include <algorithm>

#include "contract/text/utf8.h"
#include "runner/report/formats.h"
#include "runner/report/terminal_text.h"
#include "runner/report/text_table.h"

namespace fsdp {
namespace {

TextTable table_of(const PreparedReport& prepared) {
  const bool colour = prepared.report.colour;
  std::vector<TextColumn> columns;
  std::vector<std::vector<std::string>> rows(prepared.rows.size());
  for (const Column& column : prepared.columns) {
    columns.push_back({.heading = column.heading, .is_left = column.alignment == Alignment::kLeft});
    for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(text_of(column, prepared.rows[i]));
  }
  const auto style = [&](size_t row, size_t column) {
    return colour && prepared.columns[column].name == "status"
               ? colour_of(prepared.rows[row].run->status)
               : std::string_view();
  };
  return laid_out(columns, std::move(rows), 0, style, colour ? kBold : "");
}

std::string styled(const PreparedReport& prepared, const std::string& text,
                   std::string_view style) {
  return prepared.report.colour ? std::string(style) + text + std::string(kPlain) : text;
}

}  // namespace

std::string render_table(const PreparedReport& prepared) {
  std::string text;
  const auto add = [&](const std::string& line) { text += line + '\n'; };
  if (!prepared.report.title.empty()) add(visible_line(prepared.report.title) + '\n');
  const TextTable table = table_of(prepared);
  std::ranges::for_each(table.heading, add);
  add(table.rule);
  auto row = table.rows.begin();
  for (const Block& block : prepared.blocks) {
    if (!block.title.empty()) add('\n' + styled(prepared, visible_line(block.title), kBold));
    for (size_t i = 0; i < block.rows.size(); ++i) add(*row++);
  }
  if (!prepared.lines.empty() || !prepared.warnings.empty()) add("");
  for (const Warning& warning : prepared.warnings) {
    add(styled(prepared, "Warning: ", kYellow) + visible_line(warning.text) + '.');
  }
  for (const std::string& line : prepared.lines) add(visible_line(line));
  return text;
}

}  // namespace fsdp
