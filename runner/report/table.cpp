#include <algorithm>

#include "contract/text/utf8.h"
#include "runner/report/formats.h"
#include "runner/report/terminal_text.h"

namespace fsdp {
namespace {

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    c == '\n' ? lines.emplace_back() : lines.back() += c;
  }
  for (std::string& line : lines) line = visible_line(line);
  return lines;
}

// One column with all its cells as text.
struct Cells {
  const Column* column;
  std::vector<std::string> heading;
  std::vector<std::string> texts;
  size_t columns = 0;
};

std::vector<Cells> cells_of(const PreparedReport& prepared) {
  std::vector<Cells> all;
  for (const Column& column : prepared.columns) {
    if (column.heading.empty()) continue;
    Cells cells{.column = &column, .heading = split_lines(column.heading), .texts = {}};
    for (const ReportRow& row : prepared.rows) {
      cells.texts.push_back(visible_line(text_of(column, row)));
    }
    for (const auto& lines : {cells.heading, cells.texts}) {
      for (const std::string& line : lines)
        cells.columns = std::max(cells.columns, display_width(line));
    }
    all.push_back(std::move(cells));
  }
  return all;
}

class TableWriter {
 public:
  explicit TableWriter(bool colour) : colour_(colour) {}

  void cell(const std::string& text, const Cells& cells, std::string_view style) {
    if (!line_.empty()) line_ += "  ";
    const bool is_left = cells.column->alignment == Alignment::kLeft;
    const std::string shown =
        is_left ? display_left(text, cells.columns) : display_right(text, cells.columns);
    line_ += styled(shown, style);
  }
  void end_line() {
    line_.erase(line_.find_last_not_of(' ') + 1);
    text_ += line_ + '\n';
    line_.clear();
  }
  void line(const std::string& text) { text_ += visible_line(text) + '\n'; }
  void heading(const std::string& text) {
    text_ += '\n' + styled(visible_line(text), kBold) + '\n';
  }
  void warning(const std::string& text) {
    text_ += styled("Warning: ", kYellow) + visible_line(text) + ".\n";
  }
  std::string take() { return std::move(text_); }

 private:
  std::string styled(const std::string& text, std::string_view style) const {
    if (!colour_ || style.empty()) return text;
    return std::string(style) + text + std::string(kPlain);
  }

  bool colour_;
  std::string line_;
  std::string text_;
};

}  // namespace

std::string render_table(const PreparedReport& prepared) {
  const std::vector<Cells> all = cells_of(prepared);
  TableWriter writer(prepared.report.colour);
  if (!prepared.report.title.empty()) {
    writer.line(prepared.report.title);
    writer.line("");
  }

  size_t heading_lines = 0;
  for (const Cells& cells : all) heading_lines = std::max(heading_lines, cells.heading.size());
  for (size_t i = 0; i < heading_lines; ++i) {
    for (const Cells& cells : all) {
      // Headings stand on the last line.
      const size_t missing = heading_lines - cells.heading.size();
      writer.cell(i < missing ? "" : cells.heading[i - missing], cells, kBold);
    }
    writer.end_line();
  }
  for (const Cells& cells : all) writer.cell(std::string(cells.columns, '-'), cells, "");
  writer.end_line();
  for (const Block& block : prepared.blocks) {
    if (!block.title.empty()) writer.heading(block.title);
    for (size_t row = block.first_row; row < block.first_row + block.row_count; ++row) {
      for (const Cells& cells : all) {
        const bool is_status = cells.column->name == "status";
        writer.cell(cells.texts[row], cells,
                    is_status ? colour_of(prepared.rows[row].run->status) : "");
      }
      writer.end_line();
    }
  }
  if (!prepared.lines.empty() || !prepared.warnings.empty()) writer.line("");
  for (const Warning& warning : prepared.warnings) writer.warning(warning.text);
  for (const std::string& line : prepared.lines) writer.line(line);
  return writer.take();
}

}  // namespace fsdp
