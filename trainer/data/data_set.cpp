#include "trainer/data/data_set.h"

#include <algorithm>
#include <span>

#include "trainer/model/model.h"

namespace fsdp {

DataSet::DataSet(std::shared_ptr<const DocumentFile> documents, std::vector<int64_t> numbers,
                 const DataSpec& data)
    : documents_(std::move(documents)),
      numbers_(std::move(numbers)),
      sequence_length_(data.sequence_length),
      fill_(data.rows) {
  int64_t free = 0;
  for (int64_t i = 0; i < std::ssize(numbers_); ++i) {
    if (fill_ != RowFill::kPack || i == 0 || length_of(i) > free) {
      first_of_row_.push_back(i);
      free = sequence_length_;
    }
    free -= length_of(i);
  }
  first_of_row_.push_back(std::ssize(numbers_));
}

int64_t DataSet::length_of(int64_t index) const {
  return std::clamp<int64_t>(documents_->length(numbers_[index]) - 1, 0, sequence_length_);
}

void DataSet::read(int64_t index) {
  documents_->read(numbers_[index], document_);
  const auto kept = static_cast<size_t>(sequence_length_ + 1);
  if (document_.size() > kept) document_.resize(kept);
}

RowSize DataSet::size_of(int64_t row) {
  RowSize size;
  for (int64_t i = first_of_row_[row]; i < first_of_row_[row + 1]; ++i) {
    read(i);
    size.tokens += length_of(i);
    size.labels +=
        std::ranges::count_if(std::span(document_).subspan(std::min<size_t>(1, document_.size())),
                              [](uint32_t token) { return (token & kTrainedOn) != 0; });
  }
  return size;
}

std::vector<int64_t> DataSet::document_lengths(int64_t row) const {
  std::vector<int64_t> lengths;
  for (int64_t i = first_of_row_[row]; i < first_of_row_[row + 1]; ++i) {
    if (length_of(i) > 0) lengths.push_back(length_of(i));
  }
  return lengths;
}

void DataSet::read_row(int64_t row, int64_t width, int64_t* input_ids, int64_t* labels) {
  std::fill(input_ids, input_ids + width, documents_->padding_id());
  std::fill(labels, labels + width, kNoLabel);
  for (int64_t i = first_of_row_[row]; i < first_of_row_[row + 1]; ++i) {
    read(i);
    for (int64_t t = 0; t < length_of(i); ++t) {
      *input_ids++ = token_id(document_[t]);
      const uint32_t next = document_[t + 1];
      *labels++ = (next & kTrainedOn) != 0 ? token_id(next) : kNoLabel;
    }
  }
}

}  // namespace fsdp
