#include "contract/text/utf8.h"
#include "runner/report/formats.h"

namespace fsdp {
namespace {

// Escapes text for a Markdown cell or paragraph.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : visible_line(text)) {
    if (std::string_view("|*_`<[\\~").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

// Returns a paragraph that does not begin a heading, list or quotation.
std::string paragraph(const std::string& text) {
  const bool is_mark =
      !text.empty() && std::string_view("#>+-=").find(text[0]) != std::string::npos;
  return (is_mark ? "\\" : "") + escaped(text);
}

std::string headings(const std::vector<Column>& columns) {
  std::string text = "|", rule = "|";
  for (const Column& column : columns) {
    text += ' ' + escaped(printed_heading(column)) + " |";
    rule += column.alignment == Alignment::kRight ? " ---: |" : " --- |";
  }
  return text + '\n' + rule + '\n';
}

// Returns the set-up that the rows share, and a list of the answers.
std::string answers_of(const Block& block) {
  std::string text;
  if (!block.set_up.empty()) text += paragraph(block.set_up) + "\n\n";
  for (const auto& [question, answer] : block.answers) {
    text += "- **" + escaped(question) + ":** " + escaped(answer) + '\n';
  }
  return block.answers.empty() ? text : text + '\n';
}

}  // namespace

std::string render_markdown(const PreparedReport& prepared) {
  std::string text;
  if (!prepared.report.title.empty()) text += "### " + escaped(prepared.report.title) + "\n\n";
  for (const Block& block : prepared.blocks) {
    if (&block != &prepared.blocks.front()) text += '\n';
    if (!block.title.empty()) text += "#### " + escaped(block.title) + "\n\n";
    text += answers_of(block) + headings(prepared.columns);
    for (const ReportRow& row : block.rows) {
      text += '|';
      for (const Column& column : prepared.columns) {
        text += ' ' + escaped(text_of(column, row)) + " |";
      }
      text += '\n';
    }
  }
  if (prepared.blocks.empty()) text += headings(prepared.columns);
  for (const Warning& warning : prepared.warnings) {
    text += "\n**Warning:** " + escaped(warning.text) + ".\n";
  }
  for (const std::string& line : prepared.lines_and_reasons())
    text += '\n' + paragraph(line) + '\n';
  return text;
}

}  // namespace fsdp
