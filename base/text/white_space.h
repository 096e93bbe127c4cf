#pragma once

#include <string_view>

// White space as Python and Rust know it, and texts without it at their ends. Texts are UTF-8; a
// byte that is not UTF-8 is no white space.
namespace fsdp {

using IsSpace = bool (*)(char32_t);

// Unicode's White_Space, which is Rust's char::is_whitespace().
bool is_white_space(char32_t character);
// Python's str.isspace(). It also has U+001C to U+001F.
bool is_python_space(char32_t character);

std::string_view left_stripped(std::string_view text, IsSpace is_space);
std::string_view right_stripped(std::string_view text, IsSpace is_space);
// Equals Python's text.strip().
std::string_view stripped(std::string_view text);

}  // namespace fsdp
