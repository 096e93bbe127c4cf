#include "runner/commands/text_table.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "contract/text/utf8.h"
#include "runner/report/terminal_text.h"

namespace fsdp {
namespace {

constexpr size_t kGap = 2;

struct ShownColumn {
  size_t number;
  size_t width;
};

size_t width_of(const std::vector<ShownColumn>& shown) {
  const size_t cells =
      std::accumulate(shown.begin(), shown.end(), size_t{0},
                      [](size_t sum, const ShownColumn& column) { return sum + column.width; });
  return shown.empty() ? 0 : cells + kGap * (shown.size() - 1);
}

// Leaves out the column that goes first, if one may.
bool leave_one_out(std::vector<ShownColumn>& shown, const std::vector<TextColumn>& columns) {
  auto first = shown.end();
  for (auto each = shown.begin(); each != shown.end(); ++each) {
    const int leaves = columns[each->number].leaves;
    if (leaves == 0) continue;
    if (first == shown.end() || leaves < columns[first->number].leaves) first = each;
  }
  if (first == shown.end()) return false;
  shown.erase(first);
  return true;
}

}  // namespace

std::vector<std::string> text_table(std::vector<TextColumn> columns,
                                    std::vector<std::vector<std::string>> rows, size_t width,
                                    const CellStyle& style) {
  for (auto& row : rows) std::ranges::transform(row, row.begin(), visible_line);
  std::vector<ShownColumn> shown;
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto is_unknown = [&](const auto& row) { return row[i] == "-"; };
    if (columns[i].when_known && std::ranges::all_of(rows, is_unknown)) continue;
    size_t widest = display_width(columns[i].heading);
    for (const auto& row : rows) widest = std::max(widest, display_width(row[i]));
    shown.push_back({.number = i, .width = widest});
  }
  while (width > 0 && width_of(shown) > width && leave_one_out(shown, columns)) {
  }
  for (ShownColumn& column : shown) {
    const size_t least = columns[column.number].least;
    const size_t all = width_of(shown);
    if (width == 0 || all <= width || least == 0 || column.width <= least) continue;
    column.width = std::max(least, column.width - std::min(column.width, all - width));
  }

  std::vector<std::string> headings;
  for (const TextColumn& column : columns) headings.push_back(column.heading);
  rows.insert(rows.begin(), std::move(headings));
  std::vector<std::string> lines;
  for (size_t row = 0; row < rows.size(); ++row) {
    std::string line;
    for (const ShownColumn& column : shown) {
      const std::string text = display_cut(rows[row][column.number], column.width);
      const std::string cell = columns[column.number].is_left ? display_left(text, column.width)
                                                              : display_right(text, column.width);
      const std::string_view escape = row == 0 ? "" : style(row - 1, column.number);
      if (!line.empty()) line.append(kGap, ' ');
      line += escape.empty() ? cell : std::string(escape) + cell + std::string(kPlain);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace fsdp
