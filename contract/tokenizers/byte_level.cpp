#include "contract/tokenizers/byte_level.h"

#include <array>
#include <cstdint>

#include "contract/text/utf8.h"
#include "contract/tokenizers/characters.h"

namespace fsdp {
namespace {

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
