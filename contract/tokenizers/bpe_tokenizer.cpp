#include "contract/tokenizers/bpe_tokenizer.h"

#include <simdjson.h>

#include <algorithm>

#include "contract/files/input_file.h"
#include "contract/text/utf8.h"
#include "contract/tokenizers/byte_level.h"
#include "contract/tokenizers/characters.h"

namespace fsdp {
namespace {

// The most bytes that a text may grow to before it is split, far more than any real one needs. The
// limit keeps a file from asking for unlimited memory.
size_t most_bytes_of(std::string_view text) { return text.size() * 32 + 1024; }

void check_length(const std::string& changed, size_t most) {
  if (changed.size() <= most) return;
  throw std::runtime_error("its normalizer or Metaspace makes a text more than 32 times longer");
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to,
                     size_t most) {
  std::string result;
  while (true) {
    const size_t at = text.find(from);
    result += text.substr(0, at);
    if (at == std::string_view::npos) return result;
    result += to;
    check_length(result, most);
    text.remove_prefix(at + from.size());
  }
}

AddedTokens tokens_found(const std::vector<AddedToken>& tokens, bool is_normalized) {
  std::vector<AddedToken> found;
  for (const AddedToken& token : tokens) {
    if (token.is_normalized == is_normalized) found.push_back(token);
  }
  return AddedTokens(std::move(found));
}

}  // namespace

// The state of encoding one text.
struct BpeTokenizer::Call {
  bool with_special;
  bool at_begin = true;  // of the text: nothing has been encoded yet
  Scratch& scratch;
  std::vector<int32_t>& ids;
};

BpeTokenizer::BpeTokenizer(BpeParts parts)
    : parts_(std::move(parts)),
      bpe_(std::move(parts_.vocabulary), std::move(parts_.merges), parts_.rules),
      found_in_text_(tokens_found(parts_.added_tokens, false)) {
  try {
    for (AddedToken& token : parts_.added_tokens) {
      added_ids_.emplace(token.text, token.id);
      vocab_size_ = std::max<int64_t>(vocab_size_, token.id + 1);
      token.text = normalized(token.text);
    }
  } catch (const std::runtime_error& error) {
    refuse_file(parts_.file, error.what());
  }
  for (const auto& [piece, id] : bpe_.vocabulary()) {
    vocab_size_ = std::max<int64_t>(vocab_size_, id + 1);
  }
  found_in_normalized_ = tokens_found(parts_.added_tokens, true);
}

void BpeTokenizer::encode(std::string_view text, std::vector<int32_t>& ids) const {
  encode(text, false, ids);
}

void BpeTokenizer::encode_with_special(std::string_view text, std::vector<int32_t>& ids) const {
  encode(text, true, ids);
}

std::vector<PlacedToken> BpeTokenizer::added_tokens_in(std::string_view text) const {
  std::vector<PlacedToken> placed;
  const auto add_token = [&](const PlacedToken& token) { placed.push_back(token); };
  const auto look_in = [&](std::string_view part) {
    if (!parts_.normalizations.empty()) return;  // its places would be those of another text
    found_in_normalized_.split(
        part, true, [](std::string_view) {}, add_token);
  };
  found_in_text_.split(text, true, look_in, add_token);
  return placed;
}

std::optional<int32_t> BpeTokenizer::id_of(std::string_view token) const {
  if (const auto added = added_ids_.find(token); added != added_ids_.end()) return added->second;
  const std::optional<std::string> bytes =
      parts_.rules.alphabet == Alphabet::kBytes ? bytes_of_byte_level(token) : std::string(token);
  if (!bytes) return std::nullopt;
  const auto piece = bpe_.vocabulary().find(*bytes);
  if (piece == bpe_.vocabulary().end()) return std::nullopt;
  return piece->second;
}

std::unique_ptr<BpeTokenizer::Scratch> BpeTokenizer::take_scratch() const {
  {
    const std::lock_guard lock(mutex_);
    if (!unused_.empty()) {
      auto scratch = std::move(unused_.back());
      unused_.pop_back();
      return scratch;
    }
  }
  return std::make_unique<Scratch>();
}

void BpeTokenizer::encode(std::string_view text, bool with_special,
                          std::vector<int32_t>& ids) const {
  std::string valid;
  if (!simdjson::validate_utf8(text.data(), text.size())) text = valid = valid_utf8(text);
  auto scratch = take_scratch();
  scratch->pattern.begin(text.size());
  Call call{.with_special = with_special, .scratch = *scratch, .ids = ids};
  const auto add_token = [&](const PlacedToken& token) {
    ids.push_back(token.id);
    call.at_begin = false;
  };
  try {
    found_in_text_.split(
        text, with_special,
        [&](std::string_view part) {
          const std::string changed = normalized(part);
          found_in_normalized_.split(
              parts_.normalizations.empty() ? part : changed, with_special,
              [&](std::string_view rest) { encode_normalized(rest, call); }, add_token);
        },
        add_token);
  } catch (const std::runtime_error& error) {
    refuse_file(parts_.file, error.what());
  }
  const std::lock_guard lock(mutex_);
  unused_.push_back(std::move(scratch));
}

std::string BpeTokenizer::normalized(std::string_view text) const {
  if (parts_.normalizations.empty()) return std::string(text);
  std::string result(text);
  const size_t most = most_bytes_of(text);
  for (const Normalization& step : parts_.normalizations) {
    switch (step.kind) {
      case Normalization::Kind::kNfc:
        result = nfc(result);
        break;
      case Normalization::Kind::kPrepend:
        if (!result.empty()) result = step.to + result;
        check_length(result, most);
        break;
      case Normalization::Kind::kReplace:
        result = replaced(result, step.from, step.to, most);
        break;
    }
  }
  return result;
}

void BpeTokenizer::encode_normalized(std::string_view text, Call& call) const {
  std::string spaced;
  if (const auto& metaspace = parts_.metaspace) {
    const size_t most = most_bytes_of(text);
    spaced = replaced(text, " ", metaspace->space, most);
    const bool prepends = metaspace->prepend == Metaspace::Prepend::kAlways ||
                          (metaspace->prepend == Metaspace::Prepend::kFirst && call.at_begin);
    if (prepends && !spaced.starts_with(metaspace->space)) spaced = metaspace->space + spaced;
    check_length(spaced, most);
    text = spaced;
  }
  split(0, text, call);
  call.at_begin = false;
}

void BpeTokenizer::split(size_t step, std::string_view text, Call& call) const {
  if (step == parts_.splits.size()) {
    encode_word(text, call);
    return;
  }
  const Split& rule = parts_.splits[step];
  size_t done = 0;
  while (done < text.size()) {
    const auto match = rule.pattern.find(text, done, call.scratch.pattern);
    const size_t gap_end = match ? match->begin : text.size();
    if (gap_end > done && rule.keeps_gaps) {
      split(step + 1, text.substr(done, gap_end - done), call);
    }
    if (!match) break;
    if (rule.keeps_matches) {
      split(step + 1, text.substr(match->begin, match->end - match->begin), call);
    }
    done = match->end;
  }
}

void BpeTokenizer::encode_word(std::string_view word, Call& call) const {
  if (parts_.adds_prefix_space && !word.starts_with(' ')) {
    bpe_.encode(' ' + std::string(word), call.scratch.bpe, call.ids);
  } else {
    bpe_.encode(word, call.scratch.bpe, call.ids);
  }
}

}  // namespace fsdp
