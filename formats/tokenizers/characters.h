#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Unicode's properties of characters. Texts are UTF-8, and not empty if a character is returned.
namespace fsdp {

int32_t first_character(std::string_view text);
int32_t last_character(std::string_view text);

// \w of regular expressions: letters, marks, digits, connectors.
bool is_word_character(int32_t character);

// The number of bytes of white space at the start of `text`.
size_t space_at_begin(std::string_view text);
// The number of bytes without the white space at the end.
size_t without_space_at_end(std::string_view text);

// Normalization form C.
std::string nfc(std::string_view text);

// Decodes a piece that a tokenizer.json writes in GPT-2's letters for bytes: "Ġthe" is " the".
// nullopt if `piece` has other characters.
std::optional<std::string> bytes_of_byte_level(std::string_view piece);

}  // namespace fsdp
