// Reads SentencePiece models, after checks that the library SentencePiece leaves out.
#include <sentencepiece_processor.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>

#include "base/files/input_file.h"
#include "formats/tokenizers/hugging_face_folder.h"

namespace fsdp {
namespace {

// Far below the 2 GiB of protobuf, which counts the bytes of a message in an int.
constexpr size_t kLargestModel = 64 << 20;
// SentencePiece trains pieces of at most 512 characters. Its trie builder recurses for each byte.
constexpr size_t kLongestPiece = 4096;
constexpr size_t kLongestReplacement = 4096;
constexpr size_t kLongestText = 1000;  // that has a replacement; real ones have 20 bytes
// The sizes of SentencePiece's arrays on the stack: in Normalizer (kMaxTrieResultsSize) and in
// PrefixMatcher.
constexpr int kMostMatches = 32;
constexpr size_t kMostNestedSymbols = 64;

[[noreturn]] void refuse(const std::string& problem) { throw std::invalid_argument(problem); }

// Reads the fields of a protobuf message, at least as strictly as protobuf does.
class MessageReader {
 public:
  explicit MessageReader(std::string_view rest) : rest_(rest) {}

  // Advances to the next field; false at the end.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t tag = varint();
    if (tag >> 32 != 0 || tag >> 3 == 0) refuse("a field has no valid number");
    number = static_cast<uint32_t>(tag >> 3);
    bytes = {};
    value = 0;
    switch (tag & 7) {
      case 0:
        value = varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        bytes = take(varint());
        break;
      case 5:
        take(4);
        break;
      default:
        refuse("a field has no valid type");
    }
    return true;
  }

  uint32_t number = 0;
  uint64_t value = 0;      // of an integer
  std::string_view bytes;  // of a text or message

 private:
  std::string_view take(uint64_t size) {
    if (size > rest_.size()) refuse("it ends in the middle of a field");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  uint64_t varint() {
    uint64_t result = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1).front());
      result |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return result;
    }
    refuse("an integer has more than 10 bytes");
  }

  std::string_view rest_;
};

// A precompiled_charsmap: the size of a trie, the trie, and replacements that each end with a NUL.
// The trie maps a text to its replacement's offset. It has the format of darts-clone: a unit's
// child for a byte is at `base ^ byte`, if the unit there has the byte as its label. A unit's value
// is at `base`.
class CharacterTable {
 public:
  explicit CharacterTable(std::string_view map) {
    uint32_t trie_bytes = 0;
    if (map.size() < sizeof trie_bytes) refuse("its table of characters is cut short");
    std::memcpy(&trie_bytes, map.data(), sizeof trie_bytes);
    map.remove_prefix(sizeof trie_bytes);
    if (trie_bytes > map.size()) refuse("its table of characters is cut short");
    if (trie_bytes < sizeof(uint32_t)) refuse("its table of characters is empty");
    replacements_ = map.substr(trie_bytes);
    units_.resize(trie_bytes / sizeof(uint32_t));
    std::memcpy(units_.data(), map.data(), units_.size() * sizeof(uint32_t));
    most_matches_.resize(units_.size(), kUnseen);
  }

  // Checks that every search ends, stays inside the trie, and finds no more values than the library
  // has room for.
  void check() { check_unit(0, 0); }

 private:
  static constexpr int kUnseen = -1;

  uint32_t base(uint32_t unit) const {
    return unit ^ units_[unit] >> 10 << ((units_[unit] & 1U << 9) >> 6);
  }

  // Returns the most values on a path that begins at the unit. `depth` is the length of the text
  // that leads to the unit.
  int check_unit(uint32_t unit, size_t depth) {
    if (depth > kLongestText) refuse("its table of characters has a circle, or a very long text");
    if (most_matches_[unit] != kUnseen) return most_matches_[unit];
    // A search for any byte reads one of the 256 units around the base.
    if ((base(unit) | 0xFF) >= units_.size()) {
      refuse("its table of characters points outside itself");
    }
    const bool has_value = (units_[unit] >> 8 & 1) != 0;
    if (unit != 0 && has_value) check_replacement(units_[base(unit)] & 0x7FFF'FFFF);
    int most = 0;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t child = base(unit) ^ byte;
      if ((units_[child] & 0x8000'00FF) == byte)
        most = std::max(most, check_unit(child, depth + 1));
    }
    most += has_value ? 1 : 0;
    if (most > kMostMatches) refuse("its table of characters has too many prefixes of one text");
    return most_matches_[unit] = most;
  }

  void check_replacement(uint32_t offset) const {
    const auto rest = replacements_.substr(std::min<size_t>(offset, replacements_.size()));
    if (rest.substr(0, kLongestReplacement).find('\0') == std::string_view::npos) {
      refuse("its table of characters has a replacement that does not end");
    }
  }

  std::vector<uint32_t> units_;
  std::vector<int> most_matches_;  // of each unit
  std::string_view replacements_;
};

void check_normalizer(std::string_view message) {
  for (MessageReader field(message); field.next();) {
    if (field.number == 2 && !field.bytes.empty()) CharacterTable(field.bytes).check();
  }
}

// Returns the text of a piece if it is a user-defined symbol, else "".
std::string_view check_piece(std::string_view message) {
  constexpr int32_t kUserDefined = 4;
  std::string_view text;
  bool is_symbol = false;
  for (MessageReader field(message); field.next();) {
    if (field.number == 1) text = field.bytes;
    if (field.number == 3) is_symbol |= static_cast<int32_t>(field.value) == kUserDefined;
  }
  if (text.empty()) refuse("a piece is empty");
  if (text.size() > kLongestPiece) {
    refuse("a piece has " + std::to_string(text.size()) + " bytes; allowed: at most " +
           std::to_string(kLongestPiece));
  }
  if (text.find('\0') != std::string_view::npos) refuse("a piece holds a NUL");
  return is_symbol ? text : std::string_view();
}

void check_symbols(std::vector<std::string_view> symbols) {
  std::sort(symbols.begin(), symbols.end());
  std::vector<std::string_view> prefixes;  // of the current symbol, the shortest first
  for (const std::string_view symbol : symbols) {
    while (!prefixes.empty() && !symbol.starts_with(prefixes.back())) prefixes.pop_back();
    prefixes.push_back(symbol);
    if (prefixes.size() > kMostNestedSymbols) {
      refuse("more than " + std::to_string(kMostNestedSymbols) + " symbols begin with each other");
    }
  }
}

// Checks parts of a serialized ModelProto that libsentencepiece does not check. The tables of its
// normalizers must stay inside their bytes. Its pieces must fit the library's buffers and its
// stack. Throws std::invalid_argument.
void check_sentencepiece_model(std::string_view contents) {
  if (contents.size() > kLargestModel) {
    refuse("it has " + std::to_string(contents.size()) + " bytes; allowed: at most " +
           std::to_string(kLargestModel));
  }
  std::vector<std::string_view> symbols;
  for (MessageReader field(contents); field.next();) {
    if (field.number == 1) {
      const std::string_view symbol = check_piece(field.bytes);
      if (!symbol.empty()) symbols.push_back(symbol);
    }
    if (field.number == 3 || field.number == 5) check_normalizer(field.bytes);
  }
  check_symbols(std::move(symbols));
}

constexpr int32_t kSentinelsOfT5 = 100;

// A ModelProto's normalizer_spec { add_dummy_prefix: false }. Appended to a serialized message it
// overrules the message, because protobuf merges messages that follow each other.
constexpr std::string_view kWithoutPrefix("\x1A\x02\x18\x00", 4);

class SentencePieceTokenizer : public PieceTokenizer {
 public:
  SentencePieceTokenizer(const std::filesystem::path& file, std::string_view contents,
                         const FolderSettings& settings)
      : file_(file), contents_(contents) {
    load(contents_, processor_);
    vocab_size_ = processor_.GetPieceSize();
    const bool is_t5 = settings.is_t5 || file.filename() == "spiece.model";
    prepend_ = settings.metaspace ? settings.metaspace->prepend
               : is_t5            ? Metaspace::Prepend::kAlways
                                  : Metaspace::Prepend::kFirst;
    adds_space_ = prepend_ != Metaspace::Prepend::kNever;
    add_tokens(settings, is_t5);
    const auto id_or_none = [](int id) { return id < 0 ? std::nullopt : std::optional(id); };
    ends_.begin = id_or_none(processor_.bos_id());
    ends_.end = id_or_none(processor_.eos_id());
    ends_.padding = id_or_none(processor_.pad_id());
    read_ends(settings);
    const bool begins = ends_.begin && !is_t5;
    ends_.adds_begin = begins && settings.adds_begin.value_or(true);
    ends_.adds_end = ends_.end && (is_t5 || settings.adds_end.value_or(!begins));
    find_added_tokens({});
  }

 private:
  using Processor = sentencepiece::SentencePieceProcessor;

  std::optional<int32_t> piece_id(std::string_view piece) const override {
    const int id = processor_.PieceToId(piece);
    if (processor_.IdToPiece(id) != piece) return std::nullopt;
    return id;
  }

  PieceText piece_text(int32_t id) const override {
    if (id < 0 || id >= processor_.GetPieceSize()) return {};
    const std::string piece = processor_.IdToPiece(id);
    if (!processor_.IsByte(id)) return {with_spaces(piece)};
    const int byte = std::stoi(piece.substr(std::string("<0x").size()), nullptr, 16);
    return {std::string(1, static_cast<char>(byte)), /*is_byte=*/true};
  }

  void add_tokens(const FolderSettings& settings, bool is_t5) {
    const auto pieces = static_cast<int32_t>(vocab_size_);
    for (int id = 0; id < pieces; ++id) {
      if (processor_.IsControl(id) || processor_.IsUnknown(id)) {
        add({.text = processor_.IdToPiece(id), .id = id, .is_special = true});
      }
    }
    for (AddedToken token : settings.added_tokens) {
      const auto piece = id_of(token.text);
      if (piece) token.id = *piece;
      if (piece || token.id >= pieces) add(std::move(token));
    }
    if (!is_t5) return;
    const int32_t sentinels = settings.extra_ids.value_or(kSentinelsOfT5);
    for (int32_t i = 0; i < sentinels; ++i) {
      add({.text = "<extra_id_" + std::to_string(i) + ">",
           .id = pieces + sentinels - 1 - i,
           .is_special = true});
    }
  }

  void encode_text(std::string_view text, bool with_special,
                   std::vector<int32_t>& ids) const override {
    bool is_first = true;
    found_in_text_.split(
        text, with_special,
        [&](std::string_view part) {
          const bool prepends = prepend_ == Metaspace::Prepend::kAlways ||
                                (prepend_ == Metaspace::Prepend::kFirst && is_first);
          append(prepends ? processor_ : without_prefix(), part, ids);
          is_first = false;
        },
        [&](const PlacedToken& token) {
          ids.push_back(token.id);
          is_first = false;
        });
  }

  void load(std::string_view contents, Processor& processor) const {
    std::string problem;
    try {
      check_sentencepiece_model(contents);
      if (const auto status = processor.LoadFromSerializedProto(contents); !status.ok()) {
        problem = status.ToString();
      }
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      problem = error.what();
    }
    if (problem.empty()) return;
    refuse_file(file_, "is no SentencePiece model, or a damaged one (" + problem + ")");
  }

  void append(const Processor& processor, std::string_view text, std::vector<int32_t>& ids) const {
    std::vector<int> pieces;
    const auto status = processor.Encode(text, &pieces);
    if (!status.ok()) {
      refuse_file(file_, "cannot turn a text to tokens (" + status.ToString() + ")");
    }
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }

  // The processor for text after a token, where no space is added.
  const Processor& without_prefix() const {
    std::call_once(once_, [&] { load(contents_ + std::string(kWithoutPrefix), without_prefix_); });
    return without_prefix_;
  }

  std::filesystem::path file_;
  std::string contents_;
  Processor processor_;
  mutable std::once_flag once_;
  mutable Processor without_prefix_;
  Metaspace::Prepend prepend_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& file,
                                              std::string_view contents,
                                              const FolderSettings& settings) {
  return std::make_unique<SentencePieceTokenizer>(file, contents, settings);
}

}  // namespace fsdp
