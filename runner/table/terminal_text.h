#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runner/store/run_status.h"

// Measures and formats UTF-8 text in a terminal's columns. Wide characters take two columns,
// combining ones none. Bytes that are not UTF-8 take one.
namespace fsdp {

inline constexpr std::string_view kBold = "\033[1m";
inline constexpr std::string_view kDim = "\033[2m";
inline constexpr std::string_view kYellow = "\033[33m";
inline constexpr std::string_view kPlain = "\033[0m";

// Returns the escape sequence of this program that `text` begins with; else empty. These sequences
// only set styles.
std::string_view own_escape_sequence(std::string_view text);

size_t display_width(std::string_view text);

// Cuts `text` to at most `columns` columns. A '…' replaces the middle, because names of a sweep's
// runs differ at their ends. Unprintable characters appear as in visible_line().
std::string display_cut(std::string_view text, size_t columns);

// Cuts each of `names` to at most `columns` columns. Long names lose their middle. If more names
// stay distinct that way, they first lose the words that all long names share.
std::vector<std::string> cut_apart(const std::vector<std::string>& names, size_t columns);

// Pad the text to `columns` columns, with spaces after it or before it.
std::string display_left(std::string_view text, size_t columns);
std::string display_right(std::string_view text, size_t columns);

// Returns the words of `text` in lines of at most `width` columns, if the words are short enough.
// Lines begin at column `start`. `before` stands in front of the words in the first line.
std::string wrapped(const std::string& before, const std::string& text, size_t start, size_t width);

// Returns the escape sequence that colours a status; empty: none.
std::string_view colour_of(RunStatus status);

}  // namespace fsdp
