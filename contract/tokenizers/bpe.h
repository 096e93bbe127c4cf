#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "contract/tokenizers/word_cache.h"

namespace fsdp {

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Pieces as bytes of text, and their ids.
using Vocabulary = std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>>;

// All ids are lower, so a file cannot ask for a model of unlimited size.
inline constexpr int64_t kMostTokens = 1 << 24;

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

// The parts of a word before any merge.
enum class Alphabet {
  kBytes,       // its bytes
  kCharacters,  // its characters, or, of one that is no piece, the pieces of its bytes: <0x0A>
};

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

}  // namespace fsdp
