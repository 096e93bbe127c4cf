// Reads UTF-8, and makes text of others harmless. Nothing reads beyond the text's end.
#include "base/text/utf8.h"

#include <algorithm>

namespace fsdp {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
constexpr char kHex[] = "0123456789abcdef";

unsigned char byte_at(std::string_view text, size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
}

// Returns a character of two or three bytes as "\u" and four digits, such as "\u202e".
std::string code_escape(std::string_view character) {
  const char32_t code = code_point(character);
  std::string escape = "\\u";
  for (const unsigned shift : {12U, 8U, 4U, 0U}) escape += kHex[code >> shift & 15];
  return escape;
}

std::string byte_escape(char byte) {
  if (byte == '\n') return "\\n";
  if (byte == '\t') return "\\t";
  if (byte == '\r') return "\\r";
  const auto code = static_cast<unsigned char>(byte);
  return std::string("\\x") + kHex[code >> 4] + kHex[code & 15];
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

char32_t code_point(std::string_view text) {
  const size_t length = utf8_length(text);
  if (length == 1) return byte_at(text, 0);
  char32_t code = byte_at(text, 0) & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) code = code << 6 | (byte_at(text, i) & 0x3FU);
  return code;
}

bool begins_with_control_character(std::string_view text) {
  if (text.empty()) return false;
  const unsigned char first = byte_at(text, 0);
  if (first < 0x20 || first == 0x7f) return true;
  const unsigned char second = byte_at(text, 1);
  const unsigned char third = byte_at(text, 2);
  if (first == 0xc2) return second >= 0x80 && second < 0xa0;
  const bool is_separator_or_turn = second == 0x80 && third >= 0xa8 && third <= 0xae;
  const bool is_isolate = second == 0x81 && third >= 0xa6 && third <= 0xa9;
  return first == 0xe2 && (is_separator_or_turn || is_isolate);
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

std::string visible_character(std::string_view text) {
  const size_t length = utf8_length(text);
  if (length > 0 && !begins_with_control_character(text))
    return std::string(text.substr(0, length));
  return length > 1 ? code_escape(text.substr(0, length)) : byte_escape(text.front());
}

namespace {

// Returns `text` with `shown` applied to each character that is not printable ASCII.
template <typename Shown>
std::string with_shown(std::string_view text, Shown&& shown) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
  std::string result;
  while (!text.empty()) {
    const auto plain = static_cast<size_t>(std::ranges::find_if_not(text, is_plain) - text.begin());
    result += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    result += shown(text);
    text.remove_prefix(std::max<size_t>(utf8_length(text), 1));
  }
  return result;
}

}  // namespace

std::string visible_line(std::string_view text) { return with_shown(text, visible_character); }

std::string visible_lines(std::string_view text) {
  return with_shown(text, [](std::string_view rest) {
    const bool is_layout = rest[0] == '\n' || rest[0] == '\t' || rest.starts_with("\r\n");
    return is_layout ? std::string(1, rest[0]) : visible_character(rest);
  });
}

std::string valid_utf8(std::string_view text) {
  return with_shown(text, [](std::string_view rest) {
    const size_t length = utf8_length(rest);
    return length == 0 ? std::string(kReplacement) : std::string(rest.substr(0, length));
  });
}

std::string shortened(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  while (bytes > 0 && continues(text[bytes])) --bytes;
  return std::string(text.substr(0, bytes)) + "...";
}

}  // namespace fsdp
