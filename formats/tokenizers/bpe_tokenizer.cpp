// Encodes by byte pairs, as the library tokenizers does. A word takes O(n log n).
#include "formats/tokenizers/bpe_tokenizer.h"

#include <simdjson.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <queue>

#include "base/files/input_file.h"
#include "base/text/utf8.h"

namespace fsdp {
namespace {

// The limits of a cache of words. It pays off because most words are short and are repeated.
constexpr size_t kLongestKnownWord = 32;
constexpr size_t kMostKnownWords = 1 << 15;

std::string byte_piece(int byte) {
  char text[8];
  std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(byte));
  return text;
}

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

const utf8proc_uint8_t* utf8_of(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

constexpr int32_t kLetters = 256 + 68;  // 68 bytes have no letter of their own

// The byte of each letter, -1 for none. Printing characters of Latin-1 stand for themselves. The
// other bytes have the letters from U+0100 on.
std::array<int, kLetters> make_bytes_of_letters() {
  std::array<int, kLetters> bytes;
  bytes.fill(-1);
  int32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    bytes[static_cast<size_t>(prints ? byte : next++)] = byte;
  }
  return bytes;
}

// Decodes a piece that a tokenizer.json writes in GPT-2's letters for bytes: "Ġthe" is " the".
// nullopt if `piece` has other characters.
std::optional<std::string> bytes_of_byte_level(std::string_view piece) {
  static const auto kBytes = make_bytes_of_letters();
  std::string bytes;
  while (!piece.empty()) {
    utf8proc_int32_t letter = -1;
    const auto length = utf8proc_iterate(utf8_of(piece), std::ssize(piece), &letter);
    if (length < 1 || letter >= kLetters || kBytes[static_cast<size_t>(letter)] < 0) {
      return std::nullopt;
    }
    bytes += static_cast<char>(kBytes[static_cast<size_t>(letter)]);
    piece.remove_prefix(static_cast<size_t>(length));
  }
  return bytes;
}

// Normalization form C.
std::string nfc(std::string_view text) {
  // Characters before U+0300 are their own normalization form C.
  constexpr unsigned char kFirstByteOf0300 = 0xCC;
  const bool is_simple = std::ranges::all_of(
      text, [](char byte) { return static_cast<unsigned char>(byte) < kFirstByteOf0300; });
  if (is_simple) return std::string(text);
  utf8proc_uint8_t* composed = nullptr;
  const auto size =
      utf8proc_map(utf8_of(text), static_cast<utf8proc_ssize_t>(text.size()), &composed,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, &std::free);
  if (size < 0) throw std::runtime_error(std::string("NFC: ") + utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(composed), static_cast<size_t>(size)};
}

}  // namespace

std::optional<std::string> bytes_of_piece(std::string_view piece, Alphabet alphabet) {
  return alphabet == Alphabet::kBytes ? bytes_of_byte_level(piece) : std::string(piece);
}

std::string with_spaces(std::string_view piece) {
  return replaced(piece, Metaspace().space, " ", most_bytes_of(piece));
}

// The state of encoding one text.
struct BpeTokenizer::Call {
  bool at_begin = true;  // of the text: nothing has been encoded yet
  SplitPattern::TimeLimit limit;
  Words words;
  std::vector<int32_t>& ids;
};

BpeTokenizer::BpeTokenizer(BpeParts parts, const FolderSettings& settings)
    : parts_(std::move(parts)) {
  if (settings.metaspace && parts_.alphabet == Alphabet::kCharacters) {
    parts_.normalizations.clear();
    parts_.metaspace = settings.metaspace;
  }
  changes_text_ = !parts_.normalizations.empty();
  for (const auto& [piece, id] : parts_.vocabulary) {
    vocab_size_ = std::max<int64_t>(vocab_size_, id + 1);
  }
  pieces_by_id_.resize(static_cast<size_t>(vocab_size_));
  for (const auto& [piece, id] : parts_.vocabulary) pieces_by_id_[static_cast<size_t>(id)] = &piece;
  adds_space_ = parts_.metaspace && parts_.metaspace->prepend != Metaspace::Prepend::kNever;
  for (const Normalization& step : parts_.normalizations) {
    adds_space_ |= step.kind == Normalization::Kind::kPrepend;
  }
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_letter = parts_.alphabet == Alphabet::kBytes;
    const auto found = parts_.vocabulary.find(is_letter ? std::string(1, static_cast<char>(byte))
                                                        : byte_piece(byte));
    id_of_byte_[static_cast<size_t>(byte)] = found == parts_.vocabulary.end() ? -1 : found->second;
  }
  for (AddedToken& token : parts_.added_tokens) add(std::move(token));
  for (AddedToken token : settings.added_tokens) {
    token.id = piece_id(token.text).value_or(static_cast<int32_t>(vocab_size_));
    add(std::move(token));
  }
  ends_ = parts_.ends;
  read_ends(settings);
  if (!settings.adds_begin && parts_.ends.adds_begin) ends_.begin = parts_.ends.begin;
  ends_.adds_begin = settings.adds_begin.value_or(parts_.ends.adds_begin) && ends_.begin;
  ends_.adds_end = settings.adds_end.value_or(parts_.ends.adds_end) && ends_.end;
  try {
    find_added_tokens([&](const std::string& text) { return normalized(text); });
  } catch (const std::runtime_error& error) {
    refuse_file(parts_.file, error.what());
  }
}

std::optional<int32_t> BpeTokenizer::piece_id(std::string_view token) const {
  const auto bytes = bytes_of_piece(token, parts_.alphabet);
  if (!bytes) return std::nullopt;
  const auto piece = parts_.vocabulary.find(*bytes);
  if (piece == parts_.vocabulary.end()) return std::nullopt;
  return piece->second;
}

PieceTokenizer::PieceText BpeTokenizer::piece_text(int32_t id) const {
  if (id < 0 || id >= std::ssize(pieces_by_id_) || !pieces_by_id_[static_cast<size_t>(id)])
    return {};
  const std::string& piece = *pieces_by_id_[static_cast<size_t>(id)];
  if (parts_.alphabet == Alphabet::kBytes) return {piece};
  const auto byte = std::ranges::find(id_of_byte_, id);
  if (byte == id_of_byte_.end()) return {with_spaces(piece)};
  return {std::string(1, static_cast<char>(byte - id_of_byte_.begin())), /*is_byte=*/true};
}

void BpeTokenizer::encode_text(std::string_view text, bool with_special,
                               std::vector<int32_t>& ids) const {
  std::string valid;
  if (!simdjson::validate_utf8(text.data(), text.size())) text = valid = valid_utf8(text);
  Call call{.limit = SplitPattern::TimeLimit(text.size()), .words = {}, .ids = ids};
  {
    const std::lock_guard lock(mutex_);
    if (!known_words_.empty()) {
      call.words = std::move(known_words_.back());
      known_words_.pop_back();
    }
  }
  const auto add_token = [&](const PlacedToken& token) {
    ids.push_back(token.id);
    call.at_begin = false;
  };
  try {
    found_in_text_.split(
        text, with_special,
        [&](std::string_view part) {
          const std::string changed = changes_text_ ? normalized(part) : std::string();
          found_in_normalized_.split(
              changes_text_ ? changed : part, with_special,
              [&](std::string_view rest) { encode_normalized(rest, call); }, add_token);
        },
        add_token);
  } catch (const std::runtime_error& error) {
    refuse_file(parts_.file, error.what());
  }
  const std::lock_guard lock(mutex_);
  known_words_.push_back(std::move(call.words));
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
    const auto match = rule.pattern.find(text, done, call.limit);
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
  std::string spaced;
  if (parts_.adds_prefix_space && !word.starts_with(' ')) word = spaced = ' ' + std::string(word);
  const auto append = [&](const std::vector<int32_t>& ids) {
    call.ids.insert(call.ids.end(), ids.begin(), ids.end());
  };
  Words& words = call.words;
  if (const auto known = words.find(word); known != words.end()) return append(known->second);
  std::vector<int32_t> ids = ids_of_word(word);
  append(ids);
  if (word.size() > kLongestKnownWord) return;
  if (words.size() == kMostKnownWords) words.clear();
  words.emplace(word, std::move(ids));
}

std::vector<int32_t> BpeTokenizer::ids_of_word(std::string_view word) const {
  const auto whole =
      parts_.whole_words_first ? parts_.vocabulary.find(word) : parts_.vocabulary.end();
  if (whole != parts_.vocabulary.end()) return {whole->second};
  std::vector<int32_t> ids;
  while (!word.empty()) {
    const size_t length =
        parts_.alphabet == Alphabet::kBytes ? 1 : std::max<size_t>(utf8_length(word), 1);
    append_character(word.substr(0, length), ids);
    word.remove_prefix(length);
  }
  merge(ids);
  return ids;
}

void BpeTokenizer::append_character(std::string_view character, std::vector<int32_t>& ids) const {
  if (parts_.alphabet == Alphabet::kCharacters) {
    const auto piece = parts_.vocabulary.find(character);
    if (piece != parts_.vocabulary.end()) return ids.push_back(piece->second);
  }
  const auto id_of = [&](char byte) { return id_of_byte_[static_cast<unsigned char>(byte)]; };
  if (std::ranges::all_of(character, [&](char byte) { return id_of(byte) >= 0; })) {
    for (const char byte : character) ids.push_back(id_of(byte));
    return;
  }
  const bool is_fused = parts_.fuse_unknown && !ids.empty() && ids.back() == parts_.unknown;
  if (parts_.unknown && !is_fused) ids.push_back(*parts_.unknown);
}

// Merges neighbouring pieces: the lowest rank first, and equal ranks from left to right. Takes
// O(n log n).
void BpeTokenizer::merge(std::vector<int32_t>& ids) const {
  constexpr int32_t kGone = -1;
  const size_t count = ids.size();
  std::vector<size_t> previous(count), next(count);  // places; `count` if there is no neighbour
  using Candidate = std::pair<int32_t, size_t>;      // the rank, and the left piece's place
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto merge_at = [&](size_t place) -> const Merge* {
    if (next[place] == count) return nullptr;
    const auto found = parts_.merges.find(pair_of(ids[place], ids[next[place]]));
    return found == parts_.merges.end() ? nullptr : &found->second;
  };
  const auto add_candidate = [&](size_t place) {
    if (const Merge* merge = merge_at(place)) candidates.emplace(merge->rank, place);
  };
  for (size_t i = 0; i < count; ++i) {
    previous[i] = i == 0 ? count : i - 1;
    next[i] = i + 1;
  }
  for (size_t i = 0; i < count; ++i) add_candidate(i);
  while (!candidates.empty()) {
    const auto [rank, place] = candidates.top();
    candidates.pop();
    const Merge* merge = merge_at(place);
    if (merge == nullptr || merge->rank != rank) continue;  // one of the two has been merged since
    const size_t right = next[place];
    ids[place] = merge->id;
    ids[right] = kGone;
    next[place] = next[right];
    if (next[place] != count) previous[next[place]] = place;
    add_candidate(place);
    if (previous[place] != count) add_candidate(previous[place]);
  }
  std::erase(ids, kGone);
}

}  // namespace fsdp
