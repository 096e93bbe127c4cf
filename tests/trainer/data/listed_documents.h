#pragma once

#include <numeric>
#include <ranges>
#include <vector>

#include "trainer/data/sequence_set.h"

namespace fsdp {

inline constexpr int64_t kPadding = 99;

// Documents of these tokens. Tokens that are trained on are given as negative numbers.
class ListedDocuments : public DocumentFile {
 public:
  explicit ListedDocuments(std::vector<std::vector<int64_t>> documents)
      : documents_(std::move(documents)) {}

  int64_t count() const override { return std::ssize(documents_); }
  int64_t length(int64_t document) const override { return std::ssize(documents_[document]); }
  int64_t padding_id() const override { return kPadding; }
  void read(int64_t document, int64_t begin, int64_t count, Document& out) const override {
    out.clear();
    for (const int64_t id :
         documents_[document] | std::views::drop(begin) | std::views::take(count)) {
      out.push_back(static_cast<uint32_t>(id < 0 ? -id : id) | (id < 0 ? kTrainedOn : 0));
    }
  }

 private:
  std::vector<std::vector<int64_t>> documents_;
};

inline SequenceSet listed(const std::vector<std::vector<int64_t>>& documents,
                          int64_t sequence_length, RowFill rows,
                          DataKind kind = DataKind::kInstructions) {
  DataSpec data;
  data.kind = kind;
  data.sequence_length = sequence_length;
  data.rows = rows;
  std::vector<int64_t> numbers(documents.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  return SequenceSet(std::make_shared<ListedDocuments>(documents), numbers, data);
}

}  // namespace fsdp
