#include <catch2/catch.hpp>
#include <fstream>
#include <random>

#include "formats/inputs/inputs.h"
#include "formats/tokenizers/tokenizer.h"
#include "tests/contract/input_fixtures.h"

namespace fsdp {
namespace {

// A number of two bytes, as a ModelProto has it.
std::string varint(size_t size) {
  return {static_cast<char>(size | 0x80), static_cast<char>(size >> 7)};
}

// The NormalizerSpec of a ModelProto. Its precompiled_charsmap maps A to B, and AB to C. Each node
// of the double array has its value and its children in a block of 256 units of its own.
struct CharacterTable {
  static constexpr uint32_t kRoot = 0, kA = 256 + 'A', kAB = 512 + 'B';
  std::vector<uint32_t> units = std::vector<uint32_t>(1024, 1U << 31);  // nobody's child

  CharacterTable() {
    units[kRoot] = 256 << 10;
    units[kA] = (kA ^ 512) << 10 | 1 << 8 | 'A';
    units[512] = 1U << 31 | 0;
    units[kAB] = (kAB ^ 768) << 10 | 1 << 8 | 'B';
    units[768] = 1U << 31 | 2;
  }

  std::string message() const {
    const std::string table =
        bytes_of<uint32_t>({4096}) + bytes_of(units) + std::string("B\0C\0", 4);
    const std::string spec = "\x12" + varint(table.size()) + table;
    return "\x1A" + varint(spec.size()) + spec;
  }
};

struct SentencePieceModel {
  TemporaryFolder folder;
  std::ifstream file{tokenizer_of(RunSpec{}), std::ios::binary};
  std::string bytes{std::istreambuf_iterator<char>(file), {}};

  std::vector<int32_t> encoded_with(const std::string& more, std::string_view text) const {
    std::vector<int32_t> ids;
    open_tokenizer(folder.write("tokenizer.model", bytes + more))->encode(text, ids);
    return ids;
  }
};

TEST_CASE("a SentencePiece model whose table of characters points outside is refused") {
  const SentencePieceModel model;
  const CharacterTable whole;
  CHECK(model.encoded_with(whole.message(), "A AB e4") == model.encoded_with("", "B C e4"));
  std::mt19937 random(1);
  int refused = 0;
  for (int mutant = 0; mutant < 250; ++mutant) {
    CharacterTable table;
    const std::vector<uint32_t> live{whole.kRoot, whole.kA, 512, whole.kAB, 768};
    table.units[live[mutant % live.size()]] ^= 1U << random() % 32;
    table.units[random() % table.units.size()] = static_cast<uint32_t>(random());
    try {
      model.encoded_with(table.message(), "A AB ABA e4");
    } catch (const ConfigError& error) {
      ++refused;
      CHECK_THAT(error.what(),
                 Catch::Contains("tokenizer.model: ") && Catch::Contains("table of characters"));
    }
  }
  CHECK(refused > 50);
  CHECK(refused < 250);
}

TEST_CASE("a SentencePiece model that its library would read past a buffer is refused") {
  const SentencePieceModel model;
  const auto refused_with = [&](const std::string& more) {
    return refusal([&] { model.encoded_with(more, "aaa"); });
  };
  const auto piece = [](const std::string& text, const std::string& type = "") {
    const std::string message = "\x0A" + varint(text.size()) + text + type;
    return "\x0A" + varint(message.size()) + message;
  };
  CHECK_THAT(refused_with(std::string("\x1A\x06\x12\x04\xff\xff\xff\x7f", 8)),
             Catch::Contains("its table of characters is cut short"));
  CharacterTable circle;
  circle.units[circle.kAB] = (circle.kAB ^ 256) << 10 | 'B';  // has the root's children
  CHECK_THAT(refused_with(circle.message()),
             Catch::Contains("its table of characters has a circle"));
  std::string symbols;
  for (int size = 1; size <= 65; ++size) symbols += piece(std::string(size, 'z'), "\x18\x04");
  CHECK_THAT(refused_with(symbols), Catch::Contains("more than 64 symbols begin with each other"));
  CHECK_THAT(refused_with(piece(std::string(5000, 'z'))),
             Catch::Contains("a piece has 5000 bytes; allowed: at most 4096"));
  CHECK_THAT(refused_with(piece(std::string("\0z", 2))), Catch::Contains("a piece holds a NUL"));
  CHECK_THAT(refused_with("\x1A"), Catch::Contains("it ends in the middle of a field"));
}

}  // namespace
}  // namespace fsdp
