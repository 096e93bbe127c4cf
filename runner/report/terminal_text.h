#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runner/store/run_status.h"

// UTF-8 text in a terminal's columns: wide characters take two, combining ones none. Bytes that are
// not UTF-8 take one.
namespace fsdp {

inline constexpr std::string_view kBold = "\033[1m";
inline constexpr std::string_view kDim = "\033[2m";
inline constexpr std::string_view kYellow = "\033[33m";
inline constexpr std::string_view kPlain = "\033[0m";

// The escape sequence of this program's own that `text` begins with; empty: none. They set a style
// and nothing else.
std::string_view own_escape_sequence(std::string_view text);

size_t display_width(std::string_view text);

// `text` in at most `columns` columns: what is too much goes from the middle, because names of a
// sweep's runs differ at their ends, and a '…' stands for it. Shown as visible_line does.
std::string display_cut(std::string_view text, size_t columns);

// Each of `names` in at most `columns` columns. Of long ones goes the middle or, where more of them
// can be told apart then, the words that they share.
std::vector<std::string> cut_apart(const std::vector<std::string>& names, size_t columns);

// Spaces added, up to `columns`, behind the text or before it.
std::string display_left(std::string_view text, size_t columns);
std::string display_right(std::string_view text, size_t columns);

// The words of `text` from column `start` on, in lines of at most `width` columns where words allow
// it; `before` stands in front of them in the first line.
std::string wrapped(const std::string& before, const std::string& text, size_t start, size_t width);

// The escape sequence in which a status is shown; empty: none.
std::string_view colour_of(RunStatus status);

}  // namespace fsdp
