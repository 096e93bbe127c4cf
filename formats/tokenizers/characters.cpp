#include "formats/tokenizers/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "base/text/utf8.h"

namespace fsdp {
namespace {

// Characters before U+0300 are their own normalization form C.
constexpr unsigned char kFirstByteOf0300 = 0xCC;

const utf8proc_uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

size_t begin_of_last(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool is_space(int32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

constexpr int32_t kLetters = 256 + 68;  // 68 bytes have no letter of their own

// The byte of each letter, -1 for none. Printing characters of Latin-1 stand for themselves. The
// other bytes have the letters from U+0100 on.
std::array<int, kLetters> make_bytes_of_letters() {
  std::array<int, kLetters> bytes;
  bytes.fill(-1);
  int32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    bytes[static_cast<size_t>(prints ? byte : next++)] = byte;
  }
  return bytes;
}

}  // namespace

int32_t first_character(std::string_view text) {
  utf8proc_int32_t character = -1;
  utf8proc_iterate(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()), &character);
  return character;
}

int32_t last_character(std::string_view text) {
  return first_character(text.substr(begin_of_last(text)));
}

bool is_word_character(int32_t character) {
  const utf8proc_category_t category = utf8proc_category(character);
  const bool is_letter_mark_or_number =
      category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL;
  return is_letter_mark_or_number || category == UTF8PROC_CATEGORY_PC;
}

size_t space_at_begin(std::string_view text) {
  size_t bytes = 0;
  while (bytes < text.size() && is_space(first_character(text.substr(bytes)))) {
    bytes += utf8_length(text.substr(bytes));
  }
  return bytes;
}

size_t without_space_at_end(std::string_view text) {
  while (!text.empty() && is_space(last_character(text)))
    text = text.substr(0, begin_of_last(text));
  return text.size();
}

std::string nfc(std::string_view text) {
  const bool is_simple = std::ranges::all_of(
      text, [](char byte) { return static_cast<unsigned char>(byte) < kFirstByteOf0300; });
  if (is_simple) return std::string(text);
  utf8proc_uint8_t* composed = nullptr;
  const auto size =
      utf8proc_map(bytes_of(text), static_cast<utf8proc_ssize_t>(text.size()), &composed,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, &std::free);
  if (size < 0) throw std::runtime_error(std::string("NFC: ") + utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(composed), static_cast<size_t>(size)};
}

std::optional<std::string> bytes_of_byte_level(std::string_view piece) {
  static const auto kBytes = make_bytes_of_letters();
  std::string bytes;
  while (!piece.empty()) {
    const size_t length = utf8_length(piece);
    const int32_t letter = length == 0 ? -1 : first_character(piece);
    if (letter < 0 || letter >= kLetters || kBytes[static_cast<size_t>(letter)] < 0) {
      return std::nullopt;
    }
    bytes += static_cast<char>(kBytes[static_cast<size_t>(letter)]);
    piece.remove_prefix(length);
  }
  return bytes;
}

}  // namespace fsdp
