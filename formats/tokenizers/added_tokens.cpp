// Finds added tokens in a text before it is split. Holds what tokenizers of pieces share.
#include "formats/tokenizers/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/text/utf8.h"
#include "base/text/white_space.h"
#include "formats/tokenizers/hugging_face_folder.h"

namespace fsdp {
namespace {

// \w of Rust's regular expressions: letters, marks, digits, connectors and joiners.
bool is_word_character(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  const bool is_letter_mark_or_digit =
      category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL;
  const bool is_circled_or_squared_letter =
      (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
      (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  const bool is_joiner = c == 0x200C || c == 0x200D;
  return is_letter_mark_or_digit || is_circled_or_squared_letter || is_joiner ||
         category == UTF8PROC_CATEGORY_PC;
}

char32_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return code_point(text.substr(at));
}

bool is_apart(std::string_view text, size_t begin, size_t end) {
  const bool joins_left = begin > 0 && is_word_character(last_character(text.substr(0, begin)));
  const bool joins_right = end < text.size() && is_word_character(code_point(text.substr(end)));
  return !joins_left && !joins_right;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) {
  for (AddedToken& token : tokens) {
    if (token.text.empty()) continue;  // normalization left nothing of it
    begins_[static_cast<unsigned char>(token.text.front())] = true;
    std::string text = token.text;
    tokens_.insert_or_assign(std::move(text), std::move(token));
  }
}

const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  while (true) {
    const auto after = tokens_.upper_bound(text);
    if (after == tokens_.begin()) return nullptr;
    const auto& [last, token] = *std::prev(after);
    const auto common = static_cast<size_t>(std::ranges::mismatch(last, text).in1 - last.begin());
    if (common == last.size()) return &token;
    text = text.substr(0, common);  // no token at its start is longer
  }
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
    if (token->takes_left) {
      begin = done + right_stripped(text.substr(done, begin - done), is_white_space).size();
    }
    if (token->takes_right) {
      end = text.size() - left_stripped(text.substr(end), is_white_space).size();
    }
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
    if (changes_text_) return;  // places in normalized text are not places in `text`
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

std::string PieceTokenizer::decode_ids(std::span<const int32_t> ids, bool with_special) const {
  std::string text;
  std::string bytes;  // of the last pieces, each of which is a byte
  const auto end_bytes = [&] {
    if (is_utf8(bytes)) {
      text += bytes;
    } else {
      for (size_t i = 0; i < bytes.size(); ++i) text += "\uFFFD";
    }
    bytes.clear();
  };
  for (const int32_t id : ids) {
    const auto added = added_by_id_.find(id);
    const bool is_added = added != added_by_id_.end();
    if (is_added && added->second.is_special && !with_special) continue;
    const PieceText piece = is_added ? PieceText{added->second.text} : piece_text(id);
    if (piece.is_byte) {
      bytes += piece.bytes;
      continue;
    }
    end_bytes();
    text += piece.bytes;
  }
  end_bytes();
  if (adds_space_ && text.starts_with(' ')) text.erase(0, 1);
  return valid_utf8(text);
}

int32_t PieceTokenizer::add(AddedToken token) {
  const auto [place, is_new] = added_ids_.emplace(token.text, token.id);
  if (is_new) {
    vocab_size_ = std::max<int64_t>(vocab_size_, token.id + 1);
    added_by_id_.emplace(token.id, token);
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
    const std::function<std::string(const std::string&)>& normalized) {
  std::vector<AddedToken> in_text, in_normalized;
  for (AddedToken& token : added_tokens_) {
    const bool is_later = normalized && token.is_normalized;
    if (is_later) token.text = normalized(token.text);
    (is_later ? in_normalized : in_text).push_back(std::move(token));
  }
  added_tokens_.clear();
  found_in_text_ = AddedTokens(std::move(in_text));
  found_in_normalized_ = AddedTokens(std::move(in_normalized));
}

}  // namespace fsdp
