#include "runner/report/text_table.h"

#include <algorithm>
#include <ranges>

#include "contract/text/utf8.h"
#include "runner/report/terminal_text.h"

namespace fsdp {
namespace {

struct ShownColumn {
  const TextColumn* column;
  size_t number;
  std::vector<std::string> heading;
  size_t width;

  size_t least_width() const {
    return column->first_cut_to > 0 ? std::min(width, column->first_cut_to) : width;
  }
};

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
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

// Leaves out the next column, if one may be left out.
bool leave_one_out(std::vector<ShownColumn>& shown) {
  const auto first = std::ranges::min_element(shown, {}, [](const ShownColumn& column) {
    return std::pair(column.column->leaves == 0, column.column->leaves);
  });
  if (first == shown.end() || first->column->leaves == 0) return false;
  shown.erase(first);
  return true;
}

std::vector<ShownColumn> columns_with_something(const std::vector<TextColumn>& columns,
                                                const std::vector<std::vector<std::string>>& rows) {
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
  while (line_width(shown, &ShownColumn::least_width) > width && leave_one_out(shown)) {
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
void cut_cells(std::vector<std::vector<std::string>>& rows, const ShownColumn& column) {
  std::vector<std::string> cells;
  for (const auto& row : rows) cells.push_back(row[column.number]);
  cells = cut_apart(cells, column.width);
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
std::vector<std::string> heading_of(const std::vector<ShownColumn>& shown, std::string_view style) {
  size_t count = 0;
  for (const ShownColumn& column : shown) count = std::max(count, column.heading.size());
  std::vector<std::string> lines;
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

std::vector<std::string> TextTable::lines() const {
  std::vector<std::string> all = heading;
  all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

TextTable laid_out(const std::vector<TextColumn>& columns,
                   std::vector<std::vector<std::string>> rows, size_t width, const CellStyle& style,
                   std::string_view heading_style) {
  for (auto& row : rows) std::ranges::transform(row, row.begin(), visible_line);
  std::vector<ShownColumn> shown = columns_with_something(columns, rows);
  fit(shown, width);
  for (const ShownColumn& column : shown) {
    if (column.column->least > 0) cut_cells(rows, column);
  }
  TextTable table{.heading = heading_of(shown, heading_style), .rule = {}, .rows = {}, .shown = {}};
  std::ranges::transform(shown, std::back_inserter(table.shown), &ShownColumn::number);
  const auto dashes = [](const ShownColumn& column) { return std::string(column.width, '-'); };
  table.rule = line_of(shown, dashes, [](auto&) { return std::string_view(); });
  for (size_t row = 0; row < rows.size(); ++row) {
    table.rows.push_back(line_of(
        shown, [&](auto& column) { return rows[row][column.number]; },
        [&](auto& column) { return style(row, column.number); }));
  }
  return table;
}

}  // namespace fsdp
