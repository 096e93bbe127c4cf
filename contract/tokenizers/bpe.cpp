#include "contract/tokenizers/bpe.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "contract/text/utf8.h"

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

}  // namespace

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

}  // namespace fsdp
