#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Text as UTF-8.
namespace fsdp {

// The length in bytes of the character that `text` begins with; 0 when it is not UTF-8 there.
size_t utf8_length(std::string_view text);

// `text`, or, when it is longer than `bytes`, its begin and "...", between two characters.
std::string shortened(std::string_view text, size_t bytes);

// A message shows no more bytes of what a file holds than fit on a screen.
inline constexpr size_t kMostOfMessage = 1000;

// Whether all of it is UTF-8.
bool is_utf8(std::string_view text);

// How many characters it has; a byte that is not UTF-8 counts as one.
size_t utf8_count(std::string_view text);

// Whether `text` begins with a character that a terminal obeys and does not show: C0, DEL, C1, the
// separators of lines and paragraphs, and those that turn the direction of text.
bool begins_with_control_character(std::string_view text);

// Whether any of its characters is one.
bool holds_control_characters(std::string_view text);

// Text of others (of files, databases, programs) made harmless for whoever reads it: what a
// terminal would obey, ends of lines and bytes that are not UTF-8 become escapes that are read,
// \n, \x1b, \u202e. Nothing else changes.
std::string visible_line(std::string_view text);
// Keeps line feeds, also behind a carriage return, and tabs.
std::string visible_lines(std::string_view text);
// The first character of `text`, which is not empty, as visible_line shows it.
std::string visible_character(std::string_view text);

// `text` with U+FFFD for each byte that is not UTF-8.
std::string valid_utf8(std::string_view text);

}  // namespace fsdp
