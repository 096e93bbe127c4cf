#include "formats/tokenizers/bpe_tokenizer.h"

#include <simdjson.h>

#include <bit>
#include <cstdio>

#include "base/files/input_file.h"
#include "base/text/utf8.h"
#include "formats/tokenizers/characters.h"

namespace fsdp {
namespace {

// Up to this number of symbols, looking at all pairs for each merge is faster than a heap.
constexpr size_t kFewSymbols = 48;

bool goes_later(const Bpe::Candidate& a, const Bpe::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
}

std::string byte_piece(unsigned char byte) {
  char text[8];
  std::snprintf(text, sizeof text, "<0x%02X>", byte);
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

}  // namespace

std::optional<std::string> bytes_of_piece(std::string_view piece, Alphabet alphabet) {
  return alphabet == Alphabet::kBytes ? bytes_of_byte_level(piece) : std::string(piece);
}

MergeTable::MergeTable(size_t merges) {
  const size_t slots = std::bit_ceil(std::max<size_t>(merges * 2, 2));
  shift_ = 64 - std::countr_zero(slots);
  mask_ = slots - 1;
  slots_.resize(slots);
}

void MergeTable::add(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = key_of(left, right);
  size_t at = place_of(key);
  while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & mask_;
  slots_[at] = {key, merge};
}

Bpe::Bpe(Vocabulary vocabulary, MergeTable merges, BpeRules rules)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), rules_(rules) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<unsigned char>(byte);
    const auto found = vocabulary_.find(rules_.alphabet == Alphabet::kBytes
                                            ? std::string(1, static_cast<char>(value))
                                            : byte_piece(value));
    of_byte_[byte] = found == vocabulary_.end() ? -1 : found->second;
  }
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  WordCache::Entry* const entry = scratch.cache.place_of(word);
  if (entry && WordCache::holds(*entry, word)) {
    ids.insert(ids.end(), entry->ids, entry->ids + entry->count);
    return;
  }
  const size_t before = ids.size();
  const auto whole = rules_.whole_words_first ? vocabulary_.find(word) : vocabulary_.end();
  if (whole != vocabulary_.end()) {
    ids.push_back(whole->second);
  } else {
    scratch.ids.clear();
    first_ids(word, scratch.ids);
    scratch.ids.size() <= kFewSymbols ? merge_few(scratch) : merge_many(scratch);
    ids.insert(ids.end(), scratch.ids.begin(), scratch.ids.end());
  }
  if (entry) WordCache::keep(*entry, word, ids.data() + before, ids.size() - before);
}

void Bpe::first_ids(std::string_view word, std::vector<int32_t>& ids) const {
  const size_t step_limit = word.size();
  for (size_t at = 0; at < step_limit;) {
    const size_t length =
        rules_.alphabet == Alphabet::kBytes ? 1 : std::max<size_t>(utf8_length(word.substr(at)), 1);
    add_character(word.substr(at, length), ids);
    at += length;
  }
}

void Bpe::add_character(std::string_view character, std::vector<int32_t>& ids) const {
  if (rules_.alphabet == Alphabet::kCharacters) {
    const auto piece = vocabulary_.find(character);
    if (piece != vocabulary_.end()) {
      ids.push_back(piece->second);
      return;
    }
  }
  const auto id_of = [&](char byte) { return of_byte_[static_cast<unsigned char>(byte)]; };
  if (std::ranges::all_of(character, [&](char byte) { return id_of(byte) >= 0; })) {
    for (const char byte : character) ids.push_back(id_of(byte));
    return;
  }
  const bool is_fused = rules_.fuse_unknown && !ids.empty() && ids.back() == rules_.unknown;
  if (rules_.unknown && !is_fused) ids.push_back(*rules_.unknown);
}

void Bpe::merge_few(Scratch& scratch) const {
  std::vector<int32_t>& ids = scratch.ids;
  std::vector<MergeTable::Merge>& merges = scratch.merges;  // of ids[i] and ids[i + 1]
  merges.clear();
  for (size_t i = 0; i + 1 < ids.size(); ++i) merges.push_back(merges_.find(ids[i], ids[i + 1]));
  while (!merges.empty()) {
    const auto first = std::ranges::min_element(merges, {}, &MergeTable::Merge::rank);
    if (first->rank == MergeTable::kNone) break;
    const size_t at = static_cast<size_t>(first - merges.begin());
    ids[at] = first->id;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(at) + 1);
    merges.erase(first);
    if (at > 0) merges[at - 1] = merges_.find(ids[at - 1], ids[at]);
    if (at < merges.size()) merges[at] = merges_.find(ids[at], ids[at + 1]);
  }
}

void Bpe::add_candidate(int32_t place, Scratch& scratch) const {
  const Symbol& symbol = scratch.symbols[static_cast<size_t>(place)];
  if (symbol.next < 0) return;
  const int32_t right = scratch.symbols[static_cast<size_t>(symbol.next)].id;
  const MergeTable::Merge merge = merges_.find(symbol.id, right);
  if (merge.rank == MergeTable::kNone) return;
  scratch.heap.push_back({merge.rank, place, symbol.id, merge.id});
}

void Bpe::merge_many(Scratch& scratch) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  std::vector<Candidate>& heap = scratch.heap;
  const auto count = static_cast<int32_t>(scratch.ids.size());
  symbols.clear();
  heap.clear();
  for (int32_t i = 0; i < count; ++i) {
    symbols.push_back({scratch.ids[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  }
  for (int32_t i = 0; i < count; ++i) add_candidate(i, scratch);
  std::ranges::make_heap(heap, goes_later);
  const auto push = [&](int32_t place) {
    const size_t before = heap.size();
    add_candidate(place, scratch);
    if (heap.size() > before) std::ranges::push_heap(heap, goes_later);
  };
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, goes_later);
    const Candidate candidate = heap.back();
    heap.pop_back();
    Symbol& symbol = symbols[static_cast<size_t>(candidate.place)];
    // One of the two symbols has been merged since.
    if (symbol.id != candidate.left || symbol.next < 0) continue;
    Symbol& next = symbols[static_cast<size_t>(symbol.next)];
    if (merges_.find(symbol.id, next.id).id != candidate.id) continue;
    symbol.id = candidate.id;
    symbol.next = next.next;
    next.id = -1;
    if (symbol.next >= 0) symbols[static_cast<size_t>(symbol.next)].previous = candidate.place;
    push(candidate.place);
    if (symbol.previous >= 0) push(symbol.previous);
  }
  scratch.ids.clear();
  for (int32_t at = 0; at >= 0; at = symbols[static_cast<size_t>(at)].next) {
    scratch.ids.push_back(symbols[static_cast<size_t>(at)].id);
  }
}

// The state of encoding one text.
struct BpeTokenizer::Call {
  bool with_special;
  bool at_begin = true;  // of the text: nothing has been encoded yet
  Scratch& scratch;
  std::vector<int32_t>& ids;
};

BpeTokenizer::BpeTokenizer(BpeParts parts, const FolderSettings& settings)
    : parts_(std::move(parts)),
      bpe_(std::move(parts_.vocabulary), std::move(parts_.merges), parts_.rules) {
  if (settings.metaspace && parts_.rules.alphabet == Alphabet::kCharacters) {
    parts_.normalizations.clear();
    parts_.metaspace = settings.metaspace;
  }
  changes_text_ = !parts_.normalizations.empty();
  for (const auto& [piece, id] : bpe_.vocabulary()) {
    vocab_size_ = std::max<int64_t>(vocab_size_, id + 1);
  }
  for (AddedToken& token : parts_.added_tokens) add(std::move(token));
  for (AddedToken token : settings.added_tokens) {
    token.id = piece_id(token.text).value_or(static_cast<int32_t>(vocab_size_));
    add(std::move(token));
  }
  ends_ = parts_.ends;
  read_ends(settings);
  if (settings.adds_begin || settings.adds_end) {
    ends_.adds_begin = settings.adds_begin.value_or(false) && ends_.begin;
    ends_.adds_end = settings.adds_end.value_or(false) && ends_.end;
  }
  try {
    find_added_tokens([&](const AddedToken& token) { return token.is_normalized; },
                      [&](const std::string& text) { return normalized(text); });
  } catch (const std::runtime_error& error) {
    refuse_file(parts_.file, error.what());
  }
}

std::optional<int32_t> BpeTokenizer::piece_id(std::string_view token) const {
  const auto bytes = bytes_of_piece(token, parts_.rules.alphabet);
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

void BpeTokenizer::encode_text(std::string_view text, bool with_special,
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
