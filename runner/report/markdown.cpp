#include <algorithm>

#include "runner/report/formats.h"

namespace fsdp {
namespace {

// Text inside a cell or a paragraph, without meaning to Markdown.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\n') {
      result += ' ';
      continue;
    }
    if (std::string_view("|*_`<[\\").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

std::string render_markdown(const PreparedReport& prepared) {
  std::string text;
  if (!prepared.report.title.empty()) text += "### " + escaped(prepared.report.title) + "\n\n";
  std::string rule = "|";
  text += '|';
  for (const Column& column : prepared.columns) {
    if (column.heading.empty()) continue;
    text += ' ' + escaped(column.heading) + " |";
    rule += column.alignment == Alignment::kRight ? " ---: |" : " --- |";
  }
  text += '\n' + rule + '\n';
  for (const ReportRow& row : prepared.rows) {
    text += '|';
    for (const Column& column : prepared.columns) {
      if (!column.heading.empty()) text += ' ' + escaped(column.text(row)) + " |";
    }
    text += '\n';
  }
  for (const std::string& line : prepared.lines) text += '\n' + escaped(line) + '\n';
  return text;
}

}  // namespace fsdp
