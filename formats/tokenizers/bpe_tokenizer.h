#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
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

template <typename T>
using MapOfText = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

// The piece that replaces a pair of neighbouring pieces. The pair of lowest rank is replaced first.
struct Merge {
  int32_t rank = 0;
  int32_t id = -1;
};
using Merges = std::unordered_map<uint64_t, Merge>;  // by pair_of()

inline uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

// The parts of a word before any merge.
enum class Alphabet {
  kBytes,       // its bytes
  kCharacters,  // its characters; one that is no piece becomes the pieces of its bytes: <0x0A>
};

// Decodes a piece of a tokenizer.json to bytes; nullopt if it has a character that stands for no
// byte.
std::optional<std::string> bytes_of_piece(std::string_view piece, Alphabet alphabet);

// A change of the text between added tokens, before it is split into words.
struct Normalization {
  enum class Kind { kNfc, kPrepend, kReplace };
  Kind kind = Kind::kNfc;
  std::string from;  // kReplace: the text to replace
  std::string to;    // kReplace: the replacement; kPrepend: put before text that is not empty
};

// A step that splits text into words: each match of the pattern, and each text between matches.
struct Split {
  SplitPattern pattern;
  bool keeps_matches = true;  // else matches are left out
  bool keeps_gaps = true;     // else the text between matches is left out
};

// The parts of a BPE tokenizer, as in tokenizer.json.
struct BpeParts {
  std::filesystem::path file;     // for messages
  MapOfText<int32_t> vocabulary;  // pieces as bytes of text, and their ids
  Merges merges;
  Alphabet alphabet = Alphabet::kBytes;
  bool whole_words_first = false;  // a word that is a piece is that piece, whatever the merges say
  bool fuse_unknown = false;       // unknown characters in a row become one unknown piece
  std::optional<int32_t> unknown;  // nullopt: unknown characters are left out
  std::vector<AddedToken> added_tokens;
  std::vector<Normalization> normalizations;
  std::vector<Split> splits;
  bool adds_prefix_space = false;  // byte-level: put a space before words that begin without one
  std::optional<Metaspace> metaspace;
  Tokenizer::Ends ends;
};

// Reads the text of a tokenizer.json whose model is BPE. Throws ConfigError (place: the file) if
// the text is damaged, or, with the key, if a part is not supported.
BpeParts read_tokenizer_json(const std::filesystem::path& file, std::string_view text);

// True if the first line is that of a tiktoken file: a piece in base64 and its rank.
bool looks_like_tiktoken(std::string_view text);
// Reads a tiktoken file as Llama 3 does. Such a file names neither split pattern nor special
// tokens, so the result has Llama 3's pattern and 256 special tokens. Throws ConfigError (place:
// the file) if the file is not like Llama 3's.
BpeParts read_tiktoken(const std::filesystem::path& file, std::string_view text);

class BpeTokenizer : public PieceTokenizer {
 public:
  explicit BpeTokenizer(BpeParts parts, const FolderSettings& settings = {});

 private:
  using Words = MapOfText<std::vector<int32_t>>;  // words, and the ids of each
  struct Call;

  void encode_text(std::string_view text, bool with_special,
                   std::vector<int32_t>& ids) const override;
  std::optional<int32_t> piece_id(std::string_view piece) const override;
  PieceText piece_text(int32_t id) const override;
  std::string normalized(std::string_view text) const;
  void encode_normalized(std::string_view text, Call& call) const;
  void split(size_t step, std::string_view text, Call& call) const;
  void encode_word(std::string_view word, Call& call) const;
  std::vector<int32_t> ids_of_word(std::string_view word) const;
  void append_character(std::string_view character, std::vector<int32_t>& ids) const;
  void merge(std::vector<int32_t>& ids) const;

  BpeParts parts_;
  std::array<int32_t, 256> id_of_byte_;           // -1: no piece
  std::vector<const std::string*> pieces_by_id_;  // in parts_; null: no piece
  mutable std::mutex mutex_;
  // Caches of short words. Each call takes one, and puts it back at its end. Guarded by mutex_.
  mutable std::vector<Words> known_words_;
};

}  // namespace fsdp
