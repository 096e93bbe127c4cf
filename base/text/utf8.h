#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Text as UTF-8.
namespace fsdp {

// What some programs, such as Excel, write at the beginning of a file.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// The length in bytes of the first character of `text`. 0 if that is not UTF-8.
size_t utf8_length(std::string_view text);

// The first character of `text`, which must be UTF-8.
char32_t code_point(std::string_view text);

// Returns `text`, or its beginning and "..." if it is longer than `bytes`. Never cuts a character.
std::string shortened(std::string_view text, size_t bytes);

// The most bytes of a file's contents in a message, so that they fit on a screen.
inline constexpr size_t kMostOfMessage = 1000;

// True if all of `text` is UTF-8.
bool is_utf8(std::string_view text);

// The number of characters. A byte that is not UTF-8 counts as one.
size_t utf8_count(std::string_view text);

// True if the first character is one that a terminal obeys and does not show: C0, DEL, C1,
// separators of lines and paragraphs, and characters that turn the direction of text.
bool begins_with_control_character(std::string_view text);

// True if `text` holds such a character.
bool holds_control_characters(std::string_view text);

// Makes text of others (files, databases, programs) harmless to read. Control characters, line
// breaks and bytes that are not UTF-8 become escapes such as \n, \x1b, \u202e. Nothing else
// changes.
std::string visible_line(std::string_view text);
// Keeps tabs, line feeds, and carriage returns before line feeds. Otherwise like visible_line().
std::string visible_lines(std::string_view text);
// The first character of `text`, which must not be empty, as visible_line() shows it.
std::string visible_character(std::string_view text);

// Replaces each byte that is not UTF-8 by U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace fsdp
