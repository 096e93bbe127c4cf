#pragma once

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace fsdp {

// A cache of the ids of short words. Each word has one place, where it replaces the previous word.
class WordCache {
 public:
  struct Entry {
    uint8_t length = 0;
    uint8_t count = 0;
    char word[22];
    int32_t ids[10];
  };
  static_assert(sizeof(Entry) == 64);

  // The place of a word; null if the word is empty or too long.
  Entry* place_of(std::string_view word) {
    if (word.size() > sizeof Entry::word || word.empty()) return nullptr;
    if (entries_.empty()) entries_.resize(kEntries);
    return &entries_[XXH3_64bits(word.data(), word.size()) % kEntries];
  }

  static bool holds(const Entry& entry, std::string_view word) {
    return entry.length == word.size() && std::memcmp(entry.word, word.data(), word.size()) == 0;
  }

  // Keeps the ids unless they are too many.
  static void keep(Entry& entry, std::string_view word, const int32_t* ids, size_t count) {
    if (count > std::size(entry.ids)) return;
    entry.length = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(count);
    std::memcpy(entry.word, word.data(), word.size());
    std::copy_n(ids, count, entry.ids);
  }

 private:
  static constexpr size_t kEntries = 1 << 15;

  std::vector<Entry> entries_;
};

}  // namespace fsdp
