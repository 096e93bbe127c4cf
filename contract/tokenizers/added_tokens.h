#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contract/tokenizers/tokenizer.h"

namespace fsdp {

// A token that is found in text before any other processing.
struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool is_special = false;
  bool is_normalized = false;  // found after the text was normalized, not before
  bool takes_left = false;     // with the white space on its left
  bool takes_right = false;    // and on its right
  bool is_whole_word = false;  // not within a word
};

// Finds tokens in text: the first one, and the longest if several begin at one place.
class AddedTokens {
 public:
  AddedTokens() = default;
  // Tokens with an empty text are never found.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  // Calls `on_token` for each token and `on_text` for each non-empty text between them, in order.
  // Without `with_special`, special tokens are text.
  void split(std::string_view text, bool with_special,
             const std::function<void(std::string_view)>& on_text,
             const std::function<void(const PlacedToken&)>& on_token) const;

 private:
  struct Node {
    std::vector<std::pair<char, int32_t>> children;  // byte, node
    int32_t token = -1;                              // which ends here
  };

  // The longest token at the start of `text`; null if there is none.
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<bool, 256> begins_{};
};

}  // namespace fsdp
