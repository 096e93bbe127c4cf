#pragma once

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/tokenizers/hugging_face_folder.h"
#include "formats/tokenizers/split_pattern.h"

// Byte pair encoding.
namespace fsdp {

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Pieces as bytes of text, and their ids.
using Vocabulary = std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>>;

// The merges of byte pair encoding: pairs of neighbours, the piece that each becomes, and the
// order.
class MergeTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Merge {
    uint32_t rank = kNone;  // the lowest goes first
    int32_t id = -1;
  };

  explicit MergeTable(size_t merges);
  // Adds a merge, which replaces an earlier one of the same pair.
  void add(int32_t left, int32_t right, Merge merge);

  Merge find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t at = place_of(key);; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return slots_[at].merge;
      if (slots_[at].key == kEmpty) return {};
    }
  }

 private:
  static constexpr uint64_t kEmpty = UINT64_MAX;

  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };

  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }
  size_t place_of(uint64_t key) const { return (key * 0x9E3779B97F4A7C15ull) >> shift_; }

  int shift_;
  size_t mask_;
  std::vector<Slot> slots_;
};

// A cache of the ids of short words. Each word has one place, where it replaces the previous word.
class WordCache {
 public:
  struct Entry {
    uint8_t length = 0;
    uint8_t count = 0;
    char word[22];
    int32_t ids[10];
  };
  static_assert(sizeof(Entry) == 64);

  // The place of a word; null if the word is empty or too long.
  Entry* place_of(std::string_view word) {
    if (word.size() > sizeof Entry::word || word.empty()) return nullptr;
    if (entries_.empty()) entries_.resize(kEntries);
    return &entries_[XXH3_64bits(word.data(), word.size()) % kEntries];
  }

  static bool holds(const Entry& entry, std::string_view word) {
    return entry.length == word.size() && std::memcmp(entry.word, word.data(), word.size()) == 0;
  }

  // Keeps the ids unless they are too many.
  static void keep(Entry& entry, std::string_view word, const int32_t* ids, size_t count) {
    if (count > std::size(entry.ids)) return;
    entry.length = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(count);
    std::memcpy(entry.word, word.data(), word.size());
    std::copy_n(ids, count, entry.ids);
  }

 private:
  static constexpr size_t kEntries = 1 << 15;

  std::vector<Entry> entries_;
};

// The parts of a word before any merge.
enum class Alphabet {
  kBytes,       // its bytes
  kCharacters,  // its characters, or, of one that is no piece, the pieces of its bytes: <0x0A>
};

// The bytes of a piece as a tokenizer.json writes it; nullopt if it stands for none.
std::optional<std::string> bytes_of_piece(std::string_view piece, Alphabet alphabet);

struct BpeRules {
  Alphabet alphabet = Alphabet::kBytes;
  bool whole_words_first = false;  // a word that is a piece is that piece, whatever the merges say
  bool fuse_unknown = false;       // unknown neighbours become one unknown piece
  std::optional<int32_t> unknown;  // without it, what is no piece is left out
};

// Byte pair encoding of words. Immutable: several threads may use it, each with its own Scratch.
class Bpe {
 public:
  struct Symbol {
    int32_t id;
    int32_t previous, next;  // places, -1 for none
  };
  struct Candidate {
    uint32_t rank;
    int32_t place;
    int32_t left, id;  // of the symbol at `place` when it was found, and of the merged one
  };
  struct Scratch {
    std::vector<int32_t> ids;
    std::vector<MergeTable::Merge> merges;
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
    WordCache cache;
  };

  Bpe(Vocabulary vocabulary, MergeTable merges, BpeRules rules);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the ids of `word`, in O(n log n).
  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

 private:
  void first_ids(std::string_view word, std::vector<int32_t>& ids) const;
  void add_character(std::string_view character, std::vector<int32_t>& ids) const;
  void merge_few(Scratch& scratch) const;
  void merge_many(Scratch& scratch) const;
  void add_candidate(int32_t place, Scratch& scratch) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  BpeRules rules_;
  std::array<int32_t, 256> of_byte_;  // -1: no piece
};

// A change of the text between added tokens, before it is split into words.
struct Normalization {
  enum class Kind { kNfc, kPrepend, kReplace };
  Kind kind = Kind::kNfc;
  std::string from;  // of kReplace: what becomes `to`
  std::string to;    // of kPrepend: what comes before text that is not empty
};

// A step that splits text into words: each match of the pattern, and each text between matches.
struct Split {
  SplitPattern pattern;
  bool keeps_matches = true;  // else what is matched is left out
  bool keeps_gaps = true;     // else what is between matches is left out
};

// The parts of a BPE tokenizer, as in tokenizer.json.
struct BpeParts {
  std::filesystem::path file;  // for messages
  Vocabulary vocabulary;
  MergeTable merges{0};
  BpeRules rules;
  std::vector<AddedToken> added_tokens;
  std::vector<Normalization> normalizations;
  std::vector<Split> splits;
  bool adds_prefix_space = false;  // of byte-level words: before those that begin with none
  std::optional<Metaspace> metaspace;
  Tokenizer::Ends ends;
};

// Reads the text of a tokenizer.json whose model is BPE. Throws ConfigError (place: the file) if
// the text is damaged, or, with the key, if a part is not supported.
BpeParts read_tokenizer_json(const std::filesystem::path& file, std::string_view text);

// True if the text begins like a tiktoken file: each line has a piece in base64 and its rank.
bool looks_like_tiktoken(std::string_view text);
// Reads a tiktoken file as Llama 3 does. Such a file names neither split pattern nor special
// tokens. It gets Llama 3's pattern and 256 special tokens. Throws ConfigError (place: the file).
BpeParts read_tiktoken(const std::filesystem::path& file, std::string_view text);

class BpeTokenizer : public PieceTokenizer {
 public:
  explicit BpeTokenizer(BpeParts parts, const FolderSettings& settings = {});

 private:
  struct Scratch {
    Bpe::Scratch bpe;
    SplitPattern::Scratch pattern;
  };
  struct Call;

  void encode_text(std::string_view text, bool with_special,
                   std::vector<int32_t>& ids) const override;
  std::optional<int32_t> piece_id(std::string_view piece) const override;
  void encode_normalized(std::string_view text, Call& call) const;
  void split(size_t step, std::string_view text, Call& call) const;
  void encode_word(std::string_view word, Call& call) const;
  std::string normalized(std::string_view text) const;
  std::unique_ptr<Scratch> take_scratch() const;

  BpeParts parts_;
  Bpe bpe_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> unused_;  // guarded by mutex_
};

}  // namespace fsdp
