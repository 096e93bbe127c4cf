// Fits a table to a terminal: drops columns, then cuts cells so that rows stay distinct.
#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "base/text/utf8.h"
#include "runner/table/names.h"
#include "runner/table/table.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

using Texts = std::vector<std::string>;  // of a row

struct ShownColumn {
  const Column* column;
  size_t number;
  Texts heading;
  size_t width;

  size_t least_width() const {
    return column->first_cut_to > 0 ? std::min(width, column->first_cut_to) : width;
  }
};

Texts split_lines(std::string_view text) {
  Texts lines;
  for (const auto line : text | std::views::split('\n')) {
    lines.push_back(visible_line({line.begin(), line.end()}));
  }
  return lines;
}

// Returns the width of a line. `width` returns the width of each column.
template <typename Width>
size_t line_width(const std::vector<ShownColumn>& shown, Width width) {
  size_t columns = shown.empty() ? 0 : kColumnGap * (shown.size() - 1);
  for (const ShownColumn& column : shown) columns += std::invoke(width, column);
  return columns;
}

// Drops the next column, if one may be dropped.
bool drop_one(std::vector<ShownColumn>& shown) {
  const auto first = std::ranges::min_element(shown, {}, [](const ShownColumn& column) {
    return std::pair(column.column->drop_order == 0, column.column->drop_order);
  });
  if (first == shown.end() || first->column->drop_order == 0) return false;
  shown.erase(first);
  return true;
}

std::vector<ShownColumn> columns_with_text(const std::vector<Column>& columns,
                                           const std::vector<Texts>& rows) {
  std::vector<ShownColumn> shown;
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto is_unknown = [&](const auto& row) { return row[i] == "-"; };
    if (columns[i].when_known && std::ranges::all_of(rows, is_unknown)) continue;
    ShownColumn column{&columns[i], i, split_lines(columns[i].heading), 0};
    for (const std::string& line : column.heading) {
      column.width = std::max(column.width, display_width(line));
    }
    for (const auto& row : rows) column.width = std::max(column.width, display_width(row[i]));
    if (column.width > 0) shown.push_back(std::move(column));
  }
  return shown;
}

void fit(std::vector<ShownColumn>& shown, size_t width) {
  if (width == 0) return;
  while (line_width(shown, &ShownColumn::least_width) > width && drop_one(shown)) {
  }
  const auto cut = [&](ShownColumn& column, size_t least) {
    const size_t all = line_width(shown, &ShownColumn::width);
    if (all <= width || least == 0 || column.width <= least) return;
    column.width = std::max(least, column.width - std::min(column.width, all - width));
  };
  for (ShownColumn& column : shown) cut(column, column.column->first_cut_to);
  for (ShownColumn& column : shown | std::views::reverse) cut(column, column.column->least);
}

// Cuts cells that are too long. Rows stay distinct if possible.
void cut_cells(std::vector<Texts>& rows, const ShownColumn& column) {
  const Texts cells =
      cut_apart(mapped(rows, [&](const Texts& row) { return row[column.number]; }), column.width);
  for (size_t i = 0; i < rows.size(); ++i) rows[i][column.number] = cells[i];
}

// Returns a line with a cell for each column, from `cell`, in the style from `style`.
template <typename Cell, typename Style>
std::string line_of(const std::vector<ShownColumn>& shown, const Cell& cell, const Style& style) {
  std::string line;
  for (const ShownColumn& column : shown) {
    const std::string text = display_cut(cell(column), column.width);
    const std::string padded = column.column->is_left ? display_left(text, column.width)
                                                      : display_right(text, column.width);
    const std::string_view escape = style(column);
    if (&column != &shown.front()) line.append(kColumnGap, ' ');
    line += escape.empty() ? padded : std::string(escape) + padded + std::string(kPlain);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

// Returns the lines of the headings. Shorter headings are on the last lines.
Texts heading_lines(const std::vector<ShownColumn>& shown, std::string_view style) {
  size_t count = 0;
  for (const ShownColumn& column : shown) count = std::max(count, column.heading.size());
  Texts lines;
  for (size_t i = 0; i < count; ++i) {
    const auto cell = [&](const ShownColumn& column) {
      const size_t missing = count - column.heading.size();
      return i < missing ? std::string() : column.heading[i - missing];
    };
    lines.push_back(line_of(shown, cell, [&](auto&) { return style; }));
  }
  return lines;
}

}  // namespace

std::vector<std::string> TableLines::all() const {
  Texts lines = heading;
  lines.insert(lines.end(), rows.begin(), rows.end());
  return lines;
}

TableLines lay_out(const Table& table, const Terminal& terminal) {
  std::vector<const Row*> rows;
  std::vector<Texts> texts;
  for (const Block& block : table.blocks) {
    for (const Row& row : block.rows) {
      rows.push_back(&row);
      texts.emplace_back();
      for (const Cell& cell : row.cells) texts.back().push_back(visible_line(cell.text));
    }
  }
  std::vector<ShownColumn> shown = columns_with_text(table.columns, texts);
  fit(shown, terminal.width);
  for (const ShownColumn& column : shown) {
    if (column.column->least > 0) cut_cells(texts, column);
  }
  TableLines lines;
  lines.heading = heading_lines(shown, terminal.colour ? kBold : "");
  lines.shown = mapped(shown, &ShownColumn::number);
  const auto dashes = [](const ShownColumn& column) { return std::string(column.width, '-'); };
  lines.rule = line_of(shown, dashes, [](auto&) { return std::string_view(); });
  for (size_t row = 0; row < rows.size(); ++row) {
    lines.rows.push_back(line_of(
        shown, [&](auto& column) { return texts[row][column.number]; },
        [&](auto& column) {
          return terminal.colour ? rows[row]->cells[column.number].style : std::string_view();
        }));
  }
  return lines;
}

namespace {

std::string styled(const std::string& text, std::string_view style, const Terminal& terminal) {
  if (!terminal.colour || text.empty()) return text;
  return fmt::format("{}{}{}", style, text, kPlain);
}

// Returns text from users, made safe and wrapped, after a label of the program's own.
std::string paragraph(const std::string& text, const Terminal& terminal,
                      const std::string& label = "", std::string_view style = "",
                      size_t indent = 0) {
  constexpr size_t kAnyWidth = 1'000'000;
  const auto or_any = [](size_t width) { return width > 0 ? width : kAnyWidth; };
  const size_t width = std::min(or_any(terminal.width), or_any(terminal.text_width));
  const std::string lines = wrapped(label, visible_line(text), indent, width);
  return styled(label, style, terminal) + lines.substr(label.size());
}

std::string introduction_of(const Block& block, const Terminal& terminal) {
  std::string text;
  for (const std::string& line : block.introduction) text += paragraph(line, terminal);
  return text.empty() ? "" : text + '\n';
}

// Returns the lines below the rows of a block. Empty if there are none.
std::string lines_below(const Block& block, const Terminal& terminal) {
  std::string legend, answers;
  for (const std::string& line : block.legend) legend += paragraph(line, terminal);
  size_t indent = 0;
  for (const Answer& answer : block.answers) {
    indent = std::max(indent, answer.question.size() + 2);
  }
  std::string last;
  for (const auto& [question, answer] : block.answers) {
    const std::string label = question == last ? "" : question + ':';
    answers += paragraph(answer, terminal, label, kBold, indent);
    last = question;
  }
  return (legend.empty() ? "" : '\n' + legend) + (answers.empty() ? "" : '\n' + answers);
}

}  // namespace

std::string table_text(const Table& table, const Terminal& terminal) {
  const TableLines lines = lay_out(table, terminal);
  const bool has_no_title = !table.blocks.empty() && table.blocks.front().title.empty();
  const std::string head = has_no_title ? introduction_of(table.blocks.front(), terminal) : "";
  std::string text = table.title.empty() ? "" : paragraph(table.title, terminal);
  text += !table.title.empty() && head.empty() ? "\n" : head;
  for (const std::string& line : lines.heading) text += line + '\n';
  text += lines.rule + '\n';
  auto line = lines.rows.begin();
  for (const Block& block : table.blocks) {
    if (!block.title.empty()) {
      text += '\n' + styled(visible_line(block.title), kBold, terminal) + '\n';
      text += introduction_of(block, terminal);
    }
    for (size_t i = 0; i < block.rows.size(); ++i) text += *line++ + '\n';
    text += lines_below(block, terminal);
  }
  if (!table.notes.empty() || !table.warnings.empty()) text += '\n';
  for (const Warning& warning : table.warnings) {
    text += paragraph(warning.text + '.', terminal, "Warning:", kYellow, 9);
  }
  for (const std::string& note : table.notes) text += paragraph(note, terminal);
  return text;
}

}  // namespace fsdp
