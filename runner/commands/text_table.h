#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

struct TextColumn {
  std::string heading;
  bool is_left = false;
  bool when_known = false;  // left out where every cell is "-"
  int leaves = 0;           // left out where lines are too long, 1 first; 0: never
  size_t least = 0;         // where lines are still too long cut to no less than this; 0: never
};

// The escape sequence in which a cell is shown; empty: none.
using CellStyle = std::function<std::string_view(size_t row, size_t column)>;

// Headings and a line per row, of at most `width` columns where that can be; 0: of any width. Each
// row has a cell per column.
std::vector<std::string> text_table(
    std::vector<TextColumn> columns, std::vector<std::vector<std::string>> rows, size_t width,
    const CellStyle& style = [](size_t, size_t) { return std::string_view(); });

}  // namespace fsdp
