// Strips white space. Compares whole characters, so that no character is cut.
#include "base/text/white_space.h"

#include "base/text/utf8.h"

namespace fsdp {
namespace {

// The number of bytes of the last character. 0 if that is not UTF-8, or if there is none.
size_t last_length(std::string_view text) {
  constexpr size_t kLongest = 4;
  for (size_t length = 1; length <= kLongest && length <= text.size(); ++length) {
    if (utf8_length(text.substr(text.size() - length)) == length) return length;
  }
  return 0;
}

}  // namespace

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_python_space(char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

std::string_view left_stripped(std::string_view text, IsSpace is_space) {
  while (utf8_length(text) > 0 && is_space(code_point(text))) {
    text.remove_prefix(utf8_length(text));
  }
  return text;
}

std::string_view right_stripped(std::string_view text, IsSpace is_space) {
  while (const size_t length = last_length(text)) {
    if (!is_space(code_point(text.substr(text.size() - length)))) break;
    text.remove_suffix(length);
  }
  return text;
}

std::string_view stripped(std::string_view text) {
  return right_stripped(left_stripped(text, is_python_space), is_python_space);
}

}  // namespace fsdp
