#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/tokenizers/tokenizer.h"

namespace fsdp {

// A token that is searched for in text before the text is split into words.
struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool is_special = false;
  bool is_normalized = false;  // found after the text was normalized, not before
  bool takes_left = false;     // includes the white space on its left
  bool takes_right = false;    // includes the white space on its right
  bool is_whole_word = false;  // not within a word
};

// Finds tokens in text: the first one, and the longest if several begin at one place.
class AddedTokens {
 public:
  AddedTokens() = default;
  // Tokens with an empty text are never found.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // Calls `on_token` for each token and `on_text` for each non-empty text between them, in order.
  // Without `with_special`, special tokens are text.
  void split(std::string_view text, bool with_special,
             const std::function<void(std::string_view)>& on_text,
             const std::function<void(const PlacedToken&)>& on_token) const;

 private:
  // The longest token at the start of `text`; null if there is none.
  const AddedToken* longest_at(std::string_view text) const;

  std::map<std::string, AddedToken, std::less<>> tokens_;  // by their text
  std::array<bool, 256> begins_{};
};

struct FolderSettings;

// The base of all tokenizers. They find the added tokens in a text first, and turn the text between
// these tokens into pieces.
class PieceTokenizer : public Tokenizer {
 public:
  int64_t vocab_size() const override { return vocab_size_; }
  std::vector<PlacedToken> added_tokens_in(std::string_view text) const override;
  std::optional<int32_t> id_of(std::string_view token) const override;
  const Ends& ends() const override { return ends_; }

 protected:
  // The text of a piece of the vocabulary.
  struct PieceText {
    std::string bytes;
    bool is_byte = false;  // of a character that has no piece: <0x0A>
  };
  virtual std::optional<int32_t> piece_id(std::string_view piece) const = 0;
  virtual PieceText piece_text(int32_t id) const = 0;

  // Adds the token unless there is one with its text. Returns the id of the token with this text.
  int32_t add(AddedToken token);
  // Sets the members of ends_ that `settings` names.
  void read_ends(const FolderSettings& settings);
  // Prepares the search for the added tokens. If `normalized` is given, tokens with is_normalized
  // are searched for in normalized text.
  void find_added_tokens(const std::function<std::string(const std::string&)>& normalized);

  AddedTokens found_in_text_;
  AddedTokens found_in_normalized_;
  bool changes_text_ = false;  // true if there is a normalizer
  bool adds_space_ = false;    // true if a text gets a space before its first word
  Ends ends_;
  int64_t vocab_size_ = 0;

 private:
  std::string decode_ids(std::span<const int32_t> ids, bool with_special) const override;

  std::vector<AddedToken> added_tokens_;
  std::map<std::string, int32_t, std::less<>> added_ids_;
  std::map<int32_t, AddedToken> added_by_id_;
};

}  // namespace fsdp
