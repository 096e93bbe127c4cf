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
  bool when_known = false;  // left out if every cell is "-"
  int leaves = 0;           // left out if lines are too long, 1 first; 0: never
  size_t least = 0;         // if lines are still too long, cut to at least this; 0: never
  size_t first_cut_to = 0;  // cut to this before any column is left out; 0: never
};

// Returns the escape sequence for a cell; empty: none.
using CellStyle = std::function<std::string_view(size_t row, size_t column)>;

// A table of aligned columns. Lines have no spaces at their ends.
struct TextTable {
  std::vector<std::string> heading;
  std::string rule;  // below the heading
  std::vector<std::string> rows;
  std::vector<size_t> shown;  // numbers of the columns that are shown

  std::vector<std::string> lines() const;  // without the rule
};

// Lays out lines of at most `width` columns, if possible; 0: of any width. Each row has a cell per
// column. Empty columns are left out.
TextTable laid_out(
    const std::vector<TextColumn>& columns, std::vector<std::vector<std::string>> rows,
    size_t width, const CellStyle& style = [](size_t, size_t) { return std::string_view(); },
    std::string_view heading_style = {});

}  // namespace fsdp
