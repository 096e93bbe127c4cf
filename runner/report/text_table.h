#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

// Spaces between two columns.
inline constexpr size_t kColumnGap = 2;

struct TextColumn {
  std::string heading{};  // of one line or several
  bool is_left = false;
  bool when_known = false;  // left out where every cell is "-"
  int leaves = 0;           // left out where lines are too long, 1 first; 0: never
  size_t least = 0;         // where lines are still too long cut to no less than this; 0: never
  size_t first_cut_to = 0;  // cut to this before any column is left out; 0: not
};

// The escape sequence in which a cell is shown; empty: none.
using CellStyle = std::function<std::string_view(size_t row, size_t column)>;

// Columns below each other. A line has no spaces at its end.
struct TextTable {
  std::vector<std::string> heading;
  std::string rule;  // below the heading
  std::vector<std::string> rows;
  std::vector<size_t> shown;  // numbers of the columns that are there

  std::vector<std::string> lines() const;  // without the rule
};

// Lines of at most `width` columns where that can be; 0: of any width. Each row has a cell per
// column; columns of nothing are left out.
TextTable laid_out(
    const std::vector<TextColumn>& columns, std::vector<std::vector<std::string>> rows,
    size_t width, const CellStyle& style = [](size_t, size_t) { return std::string_view(); },
    std::string_view heading_style = {});

}  // namespace fsdp
