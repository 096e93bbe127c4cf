#include <algorithm>

#include "contract/text/utf8.h"
#include "runner/report/brief_columns.h"
#include "runner/report/formats.h"
#include "runner/report/terminal_text.h"
#include "runner/report/text_table.h"

namespace fsdp {
namespace {

constexpr size_t kAnyWidth = 1'000'000;
constexpr size_t kNarrowestPoint = 12;
constexpr size_t kWidePoint = 28;  // longer names are cut before columns are left out

TextColumn text_column(const Column& column, bool fits_terminal) {
  TextColumn text{.heading = column.heading, .is_left = column.alignment == Alignment::kLeft};
  if (!fits_terminal) return text;
  text.leaves = goes(column);
  if (column.name == "point") {
    text.least = kNarrowestPoint;
    text.first_cut_to = kWidePoint;
  }
  return text;
}

TextTable table_of(const PreparedReport& prepared) {
  const bool colour = prepared.report.colour;
  std::vector<TextColumn> columns;
  std::vector<std::vector<std::string>> rows(prepared.rows.size());
  for (const Column& column : prepared.columns) {
    columns.push_back(text_column(column, prepared.fits_terminal));
    for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(text_of(column, prepared.rows[i]));
  }
  const auto style = [&](size_t row, size_t column) {
    return colour && prepared.columns[column].name == "status"
               ? colour_of(prepared.rows[row].run->status)
               : std::string_view();
  };
  return laid_out(columns, std::move(rows), prepared.fits_terminal ? prepared.report.width : 0, style,
                  colour ? kBold : "");
}

// Text around the table.
class Lines {
 public:
  explicit Lines(const Report& report)
      : colour_(report.colour), width_(report.width > 0 ? report.width : kAnyWidth) {}

  // Adds the line unchanged, with a line feed.
  void add(const std::string& line) { text_ += line + '\n'; }
  // Adds text from users, made safe and wrapped at the terminal's width.
  void add_paragraph(const std::string& text) { add_labelled("", "", text, 0); }
  // Adds such text after a label of the program's own, which has a style.
  void add_labelled(std::string_view label, std::string_view style, const std::string& text,
                    size_t indent) {
    const std::string lines = wrapped(std::string(label), visible_line(text), indent, width_);
    text_ += styled(label, style) + lines.substr(label.size());
  }
  std::string styled(std::string_view text, std::string_view style) const {
    if (!colour_ || text.empty()) return std::string(text);
    return std::string(style) + std::string(text) + std::string(kPlain);
  }
  std::string text() const { return text_; }

 private:
  bool colour_;
  size_t width_;
  std::string text_;
};

void add_answers(Lines& lines, const Block& block) {
  size_t indent = 0;
  for (const Answer& answer : block.answers) {
    indent = std::max(indent, answer.question.size() + 2);
  }
  if (!block.set_up.empty()) lines.add_paragraph(block.set_up);
  for (const auto& [question, text] : block.answers) {
    lines.add_labelled(question + ':', kBold, text, indent);
  }
  if (!block.answers.empty()) lines.add("");
}

}  // namespace

void keep_columns_that_fit(PreparedReport& prepared) {
  std::erase_if(prepared.columns, [](const Column& column) { return column.heading.empty(); });
  std::vector<Column> kept;
  for (const size_t number : table_of(prepared).shown) kept.push_back(prepared.columns[number]);
  prepared.columns = std::move(kept);
}

std::string render_table(const PreparedReport& prepared) {
  Lines lines(prepared.report);
  const auto add = [&](const std::string& line) { lines.add(line); };
  const bool is_one_block = prepared.blocks.size() == 1 && prepared.blocks.front().title.empty();
  const bool has_answers = is_one_block && !prepared.blocks.front().answers.empty();
  if (!prepared.report.title.empty()) {
    lines.add_paragraph(prepared.report.title);
    if (!has_answers) add("");
  }
  if (has_answers) add_answers(lines, prepared.blocks.front());
  const TextTable table = table_of(prepared);
  std::ranges::for_each(table.heading, add);
  add(table.rule);
  auto row = table.rows.begin();
  for (const Block& block : prepared.blocks) {
    if (!block.title.empty()) {
      add('\n' + lines.styled(visible_line(block.title), kBold));
      add_answers(lines, block);
    }
    for (size_t i = 0; i < block.rows.size(); ++i) add(*row++);
  }
  const std::vector<std::string> below = prepared.lines_and_reasons();
  if (!below.empty() || !prepared.warnings.empty()) add("");
  for (const Warning& warning : prepared.warnings) {
    lines.add_labelled("Warning:", kYellow, warning.text + '.', 9);
  }
  for (const std::string& line : below) lines.add_paragraph(line);
  return lines.text();
}

}  // namespace fsdp
