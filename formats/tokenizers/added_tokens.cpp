#include "formats/tokenizers/added_tokens.h"

#include <algorithm>

#include "formats/tokenizers/characters.h"
#include "formats/tokenizers/hugging_face_folder.h"

namespace fsdp {
namespace {

bool is_apart(std::string_view text, size_t begin, size_t end) {
  const bool joins_left = begin > 0 && is_word_character(last_character(text.substr(0, begin)));
  const bool joins_right =
      end < text.size() && is_word_character(first_character(text.substr(end)));
  return !joins_left && !joins_right;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), nodes_(1) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].text.empty()) continue;  // normalization left nothing of it
    size_t at = 0;
    for (const char byte : tokens_[i].text) {
      const auto& children = nodes_[at].children;
      const auto found = std::ranges::find(children, byte, &std::pair<char, int32_t>::first);
      if (found != children.end()) {
        at = static_cast<size_t>(found->second);
      } else {
        nodes_[at].children.emplace_back(byte, static_cast<int32_t>(nodes_.size()));
        at = nodes_.size();
        nodes_.emplace_back();
      }
    }
    nodes_[at].token = static_cast<int32_t>(i);
    begins_[static_cast<unsigned char>(tokens_[i].text.front())] = true;
  }
}

const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  const AddedToken* longest = nullptr;
  size_t at = 0;
  for (const char byte : text) {
    const auto& children = nodes_[at].children;
    const auto found = std::ranges::find(children, byte, &std::pair<char, int32_t>::first);
    if (found == children.end()) break;
    at = static_cast<size_t>(found->second);
    if (nodes_[at].token >= 0) longest = &tokens_[static_cast<size_t>(nodes_[at].token)];
  }
  return longest;
}

void AddedTokens::split(std::string_view text, bool with_special,
                        const std::function<void(std::string_view)>& on_text,
                        const std::function<void(const PlacedToken&)>& on_token) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* const token =
        begins_[static_cast<unsigned char>(text[at])] ? longest_at(text.substr(at)) : nullptr;
    if (!token) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + token->text.size();
    at = end;
    if (token->is_special && !with_special) continue;
    if (token->is_whole_word && !is_apart(text, begin, end)) continue;
    if (token->takes_left) begin = done + without_space_at_end(text.substr(done, begin - done));
    if (token->takes_right) end += space_at_begin(text.substr(end));
    if (begin > done) on_text(text.substr(done, begin - done));
    on_token({text.substr(begin, end - begin), token->id, token->is_special});
    done = at = end;
  }
  if (done < text.size()) on_text(text.substr(done));
}

std::vector<PlacedToken> PieceTokenizer::added_tokens_in(std::string_view text) const {
  std::vector<PlacedToken> placed;
  const auto add_token = [&](const PlacedToken& token) { placed.push_back(token); };
  const auto look_in = [&](std::string_view part) {
    if (changes_text_) return;  // its places would be those of another text
    found_in_normalized_.split(
        part, true, [](std::string_view) {}, add_token);
  };
  found_in_text_.split(text, true, look_in, add_token);
  return placed;
}

std::optional<int32_t> PieceTokenizer::id_of(std::string_view token) const {
  const auto added = added_ids_.find(token);
  return added == added_ids_.end() ? piece_id(token) : added->second;
}

int32_t PieceTokenizer::add(AddedToken token) {
  const auto [place, is_new] = added_ids_.emplace(token.text, token.id);
  if (is_new) {
    vocab_size_ = std::max<int64_t>(vocab_size_, token.id + 1);
    added_tokens_.push_back(std::move(token));
  }
  return place->second;
}

void PieceTokenizer::read_ends(const FolderSettings& settings) {
  const auto read = [&](const std::optional<std::string>& text, std::optional<int32_t>& id) {
    if (!text) return;
    id = id_of(*text);
    // A token in no file gets the next id, as in transformers.
    if (!id) {
      id = add({.text = *text, .id = static_cast<int32_t>(vocab_size_), .is_special = true});
    }
  };
  read(settings.begin, ends_.begin);
  read(settings.end, ends_.end);
  read(settings.padding, ends_.padding);
}

void PieceTokenizer::find_added_tokens(
    const std::function<bool(const AddedToken&)>& is_normalized,
    const std::function<std::string(const std::string&)>& normalized) {
  std::vector<AddedToken> in_text, in_normalized;
  for (AddedToken& token : added_tokens_) {
    const bool is_later = is_normalized(token);
    if (is_later) token.text = normalized(token.text);
    (is_later ? in_normalized : in_text).push_back(std::move(token));
  }
  added_tokens_.clear();
  found_in_text_ = AddedTokens(std::move(in_text));
  found_in_normalized_ = AddedTokens(std::move(in_normalized));
}

}  // namespace fsdp
