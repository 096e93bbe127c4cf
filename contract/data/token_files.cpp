#include "contract/data/token_files.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "contract/data/npy.h"
#include "contract/data/token_bytes.h"

namespace fsdp {
namespace {

using std::filesystem::path;

void check_tokens(const path& file, const std::string& where, int64_t minimum, int64_t maximum,
                  int64_t vocab_size) {
  if (minimum >= 0 && maximum < vocab_size) return;
  refuse_file(file, where + "holds the token " + std::to_string(minimum < 0 ? minimum : maximum) +
                        ", but the model's vocabulary has " + std::to_string(vocab_size) +
                        " tokens; allowed: 0 to " + std::to_string(vocab_size - 1));
}

// Checks tokens of a row again, because the file may have changed since the first check.
template <typename Item>
void check_row(const path& file, int64_t row, std::span<const Item> tokens, int64_t vocab_size) {
  if (tokens.empty()) return;
  const auto [minimum, maximum] = std::ranges::minmax(tokens);
  check_tokens(file, "changed since it was opened: row " + std::to_string(row) + ' ', minimum,
               maximum, vocab_size);
}

class ArrayRows : public DocumentFile {
 public:
  ArrayRows(const path& file, int64_t sequence_length, int64_t vocab_size)
      : tokens_(file), vocab_size_(vocab_size) {
    if (tokens_.columns() != sequence_length + 1) {
      refuse_file(file, "has rows of " + std::to_string(tokens_.columns()) +
                            " tokens; needed: data.sequence_length + 1 = " +
                            std::to_string(sequence_length + 1));
    }
    const auto [minimum, maximum] = tokens_.minimum_and_maximum();
    check_tokens(file, "", minimum, maximum, vocab_size);
  }

  int64_t count() const override { return tokens_.rows(); }
  int64_t length(int64_t) const override { return tokens_.columns(); }
  int64_t padding_id() const override { return 0; }
  void read(int64_t document, int64_t begin, int64_t count, Document& out) const override {
    std::vector<int64_t> row(static_cast<size_t>(tokens_.columns()));
    tokens_.read_row(document, row.data());
    check_row(tokens_.path(), document, std::span<const int64_t>(row), vocab_size_);
    out.clear();
    const int64_t end = std::min(begin + count, tokens_.columns());
    for (int64_t i = begin; i < end; ++i) {
      out.push_back(static_cast<uint32_t>(row[static_cast<size_t>(i)]) | kTrainedOn);
    }
  }

 private:
  TokenArray tokens_;
  int64_t vocab_size_;
};

template <typename Item>
class FlatTokens : public DocumentFile {
 public:
  FlatTokens(const path& file, int64_t sequence_length, int64_t vocab_size, bool is_chosen)
      : file_(file), sequence_length_(sequence_length), vocab_size_(vocab_size) {
    require_bare_tokens(file_, kDtype, is_chosen);
    const uint64_t bytes = file_.size_bytes();
    if (bytes % sizeof(Item) != 0) {
      refuse_file(file, "holds " + std::to_string(bytes) + " bytes, which are no whole tokens of " +
                            std::to_string(sizeof(Item)) + " bytes; it is cut short, or no .bin");
    }
    token_count_ = static_cast<int64_t>(bytes / sizeof(Item));
    check_all_tokens(is_chosen);
  }

  int64_t count() const override {
    return std::max<int64_t>(0, token_count_ - 1) / sequence_length_;
  }
  int64_t length(int64_t) const override { return sequence_length_ + 1; }
  int64_t padding_id() const override { return 0; }
  void read(int64_t document, int64_t begin, int64_t count, Document& out) const override {
    out.clear();
    const int64_t size = std::min(begin + count, sequence_length_ + 1) - begin;
    if (size <= 0) return;
    std::vector<Item> items(static_cast<size_t>(size));
    file_.read(static_cast<uint64_t>(document * sequence_length_ + begin) * sizeof(Item),
               std::as_writable_bytes(std::span(items)));
    check_row(file_.path(), document, std::span<const Item>(items), vocab_size_);
    for (const Item item : items) out.push_back(item | kTrainedOn);
  }

 private:
  static constexpr TokenDtype kDtype =
      sizeof(Item) == sizeof(uint16_t) ? TokenDtype::kUint16 : TokenDtype::kUint32;

  void check_all_tokens(bool is_chosen) const {
    constexpr size_t kPlaces = sizeof(uint64_t) / sizeof(Item);
    LargestTokens largest{.count = token_count_};
    int64_t beyond = 0;
    file_.read_blocks(0, file_.size_bytes(), [&](std::span<const std::byte> block) {
      for (size_t i = 0; i < block.size() / sizeof(Item); ++i) {
        const Item token = item(block, i);
        uint32_t& largest_there = largest.at[i % kPlaces];
        largest_there = std::max<uint32_t>(largest_there, token);
        beyond += token >= vocab_size_ ? 1 : 0;
      }
    });
    if (!is_chosen) {
      const std::string problem = wider_tokens(largest, kDtype);
      if (!problem.empty()) refuse_file(file_.path(), problem);
    }
    if (kDtype == TokenDtype::kUint32 && beyond > token_count_ / 2) {
      refuse_file(file_.path(),
                  "holds " + std::to_string(beyond) + " of " + std::to_string(token_count_) +
                      " tokens beyond the model's vocabulary of " + std::to_string(vocab_size_) +
                      ", as a file of uint16 that is read as uint32; if it is one, "
                      "set data.token_dtype: uint16");
    }
    check_tokens(file_.path(), "", 0, std::ranges::max(largest.at), vocab_size_);
  }

  static Item item(std::span<const std::byte> items, size_t index) {
    Item value;
    std::memcpy(&value, items.data() + index * sizeof(Item), sizeof(Item));
    return value;
  }

  InputFile file_;
  int64_t sequence_length_;
  int64_t vocab_size_;
  int64_t token_count_ = 0;
};

}  // namespace

std::unique_ptr<DocumentFile> open_token_file(const path& file, int64_t sequence_length,
                                              int64_t vocab_size,
                                              const std::optional<TokenDtype>& dtype) {
  constexpr int64_t kMostOfUint16 = 65'536;
  if (file.extension() != ".bin") {
    return std::make_unique<ArrayRows>(file, sequence_length, vocab_size);
  }
  const TokenDtype by_vocabulary =
      vocab_size > kMostOfUint16 ? TokenDtype::kUint32 : TokenDtype::kUint16;
  if (dtype.value_or(by_vocabulary) == TokenDtype::kUint32) {
    return std::make_unique<FlatTokens<uint32_t>>(file, sequence_length, vocab_size,
                                                  dtype.has_value());
  }
  return std::make_unique<FlatTokens<uint16_t>>(file, sequence_length, vocab_size,
                                                dtype.has_value());
}

}  // namespace fsdp
