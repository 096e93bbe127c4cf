#include "trainer/contract/utf8.h"

#include <algorithm>

namespace fsdp {
namespace {

unsigned char byte_at(std::string_view text, size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

}  // namespace

size_t utf8_length(std::string_view text) {
  const unsigned char first = byte_at(text, 0);
  if (text.empty()) return 0;
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    if (byte_at(text, i) < 0x80 || byte_at(text, i) > 0xbf) return 0;
  }
  const unsigned char second = byte_at(text, 1);
  const bool is_overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool is_surrogate = first == 0xed && second > 0x9f;
  const bool is_beyond_unicode = first == 0xf4 && second > 0x8f;
  return is_overlong || is_surrogate || is_beyond_unicode ? 0 : length;
}

bool begins_with_control_character(std::string_view text) {
  if (text.empty()) return false;
  const unsigned char first = byte_at(text, 0);
  if (first < 0x20 || first == 0x7f) return true;
  return first == 0xc2 && byte_at(text, 1) >= 0x80 && byte_at(text, 1) < 0xa0;
}

bool is_utf8(std::string_view text) {
  while (const size_t length = utf8_length(text)) text.remove_prefix(length);
  return text.empty();
}

size_t utf8_count(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(std::max<size_t>(utf8_length(text), 1));
  return count;
}

bool holds_control_characters(std::string_view text) {
  for (; !text.empty(); text.remove_prefix(std::max<size_t>(utf8_length(text), 1))) {
    if (begins_with_control_character(text)) return true;
  }
  return false;
}

}  // namespace fsdp
