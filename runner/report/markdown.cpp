#include "contract/text/utf8.h"
#include "runner/report/formats.h"

namespace fsdp {
namespace {

// Text inside a cell or a paragraph, without meaning to Markdown.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : visible_line(text)) {
    if (std::string_view("|*_`<[\\~").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

// One that begins no heading, list or quotation.
std::string paragraph(const std::string& text) {
  const bool is_mark =
      !text.empty() && std::string_view("#>+-=").find(text[0]) != std::string::npos;
  std::string result;
  if (is_mark) result += '\\';
  return result.append(escaped(text));
}

void append_headings(std::string& text, const std::vector<Column>& columns) {
  std::string rule = "|";
  text += '|';
  for (const Column& column : columns) {
    if (column.heading.empty()) continue;
    text += ' ' + escaped(printed_heading(column)) + " |";
    rule += column.alignment == Alignment::kRight ? " ---: |" : " --- |";
  }
  text += '\n' + rule + '\n';
}

void append_rows(std::string& text, const PreparedReport& prepared, const Block& block) {
  for (size_t row = block.first_row; row < block.first_row + block.row_count; ++row) {
    text += '|';
    for (const Column& column : prepared.columns) {
      if (!column.heading.empty())
        text += ' ' + escaped(text_of(column, prepared.rows[row])) + " |";
    }
    text += '\n';
  }
}

}  // namespace

std::string render_markdown(const PreparedReport& prepared) {
  std::string text;
  if (!prepared.report.title.empty()) text += "### " + escaped(prepared.report.title) + "\n\n";
  for (const Block& block : prepared.blocks) {
    if (!block.title.empty()) text += "#### " + escaped(block.title) + "\n\n";
    append_headings(text, prepared.columns);
    append_rows(text, prepared, block);
    if (&block != &prepared.blocks.back()) text += '\n';
  }
  if (prepared.blocks.empty()) append_headings(text, prepared.columns);
  for (const Warning& warning : prepared.warnings) {
    text += "\n**Warning:** " + escaped(warning.text) + ".\n";
  }
  for (const std::string& line : prepared.lines) text += '\n' + paragraph(line) + '\n';
  return text;
}

}  // namespace fsdp
