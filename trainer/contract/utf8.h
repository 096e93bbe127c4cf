#pragma once

#include <cstddef>
#include <string_view>

// Text as UTF-8.
namespace fsdp {

// The length in bytes of the character that `text` begins with; 0 when it is not UTF-8 there.
size_t utf8_length(std::string_view text);

// Whether all of it is UTF-8.
bool is_utf8(std::string_view text);

// How many characters it has; a byte that is not UTF-8 counts as one.
size_t utf8_count(std::string_view text);

// Whether `text` begins with a character that a terminal would obey: C0, DEL or C1.
bool begins_with_control_character(std::string_view text);

// Whether any of its characters is one.
bool holds_control_characters(std::string_view text);

}  // namespace fsdp
