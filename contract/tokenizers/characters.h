#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// What Unicode says of characters. Texts are UTF-8 and, where a character is asked for, not empty.
namespace fsdp {

int32_t first_character(std::string_view text);
int32_t last_character(std::string_view text);

// \w of regular expressions: letters, marks, digits, connectors.
bool is_word_character(int32_t character);

// How many bytes of white space `text` begins with.
size_t space_at_begin(std::string_view text);
// How many bytes remain without the white space at its end.
size_t without_space_at_end(std::string_view text);

// Normalization form C.
std::string nfc(std::string_view text);

}  // namespace fsdp
