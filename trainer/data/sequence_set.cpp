// Makes rows of documents for a decoder: one in a row, or as many as fit whole.
#include "trainer/data/sequence_set.h"

#include <algorithm>
#include <numeric>

namespace fsdp {

SequenceSet::SequenceSet(std::shared_ptr<const DocumentFile> documents,
                         std::vector<int64_t> numbers, const DataSpec& data)
    : documents_(std::move(documents)), sequence_length_(data.sequence_length), fill_(data.rows) {
  parts_.reserve(numbers.size());
  for (const int64_t number : numbers) {
    parts_.push_back({.document = number, .begin = 0});
    // Only texts go on in another row. The rest of an answer would have lost its question.
    if (data.kind != DataKind::kText) continue;
    const int64_t places = documents_->length(number) - 1;
    for (int64_t begin = sequence_length_; begin < places; begin += sequence_length_) {
      parts_.push_back({.document = number, .begin = begin});
    }
  }
  int64_t free = 0;
  for (int64_t i = 0; i < std::ssize(parts_); ++i) {
    const int64_t length = length_of(parts_[i]);
    if (fill_ != RowFill::kPack || i == 0 || length > free) {
      first_of_row_.push_back(i);
      free = sequence_length_;
    }
    free -= length;
  }
  first_of_row_.push_back(std::ssize(parts_));
}

int64_t SequenceSet::length_of(const Part& part) const {
  const int64_t places = documents_->length(part.document) - 1 - part.begin;
  return std::clamp<int64_t>(places, 0, sequence_length_);
}

void SequenceSet::read(const Part& part) {
  documents_->read(part.document, part.begin, sequence_length_ + 1, document_);
}

RowSize SequenceSet::size_of(int64_t row) {
  RowSize size;
  for (int64_t i = first_of_row_[row]; i < first_of_row_[row + 1]; ++i) {
    read(parts_[i]);
    size.tokens += length_of(parts_[i]);
    size.labels +=
        std::ranges::count_if(std::span(document_).subspan(std::min<size_t>(1, document_.size())),
                              [](uint32_t token) { return (token & kTrainedOn) != 0; });
  }
  return size;
}

std::vector<int64_t> SequenceSet::document_lengths(int64_t row) const {
  std::vector<int64_t> lengths;
  for (int64_t i = first_of_row_[row]; i < first_of_row_[row + 1]; ++i) {
    if (const int64_t length = length_of(parts_[i]); length > 0) lengths.push_back(length);
  }
  return lengths;
}

void SequenceSet::read_row(int64_t row, int64_t width, int64_t* input_ids, int64_t* labels) {
  std::fill(input_ids, input_ids + width, documents_->padding_id());
  std::fill(labels, labels + width, kNoLabel);
  for (int64_t i = first_of_row_[row]; i < first_of_row_[row + 1]; ++i) {
    read(parts_[i]);
    const int64_t length = length_of(parts_[i]);
    for (int64_t t = 0; t < length; ++t) {
      *input_ids++ = token_id(document_[t]);
      const uint32_t next = document_[t + 1];
      *labels++ = (next & kTrainedOn) != 0 ? token_id(next) : kNoLabel;
    }
  }
}

int64_t SequenceSet::width_of(std::span<const int64_t> rows) {
  if (fill_ != RowFill::kPadToLongest) return sequence_length_;
  int64_t width = 1;
  for (const int64_t row : rows) width = std::max(width, size_of(row).tokens);
  return width;
}

int64_t SequenceSet::batch_tokens(std::span<const int64_t> rows) {
  return std::ssize(rows) * width_of(rows);
}

// The filling of a row counts as a document.
DocumentsPtr SequenceSet::documents_of(std::span<const int64_t> rows, at::Device device) const {
  std::vector<int64_t> lengths;
  for (const int64_t row : rows) {
    const std::vector<int64_t> of_row = document_lengths(row);
    lengths.insert(lengths.end(), of_row.begin(), of_row.end());
    const int64_t free =
        sequence_length_ - std::accumulate(of_row.begin(), of_row.end(), int64_t{0});
    if (free > 0) lengths.push_back(free);
  }
  return make_documents(lengths, sequence_length_, device);
}

Batch SequenceSet::load(std::span<const int64_t> rows, at::Device device) {
  const int64_t T = width_of(rows);
  const auto options = at::dtype(at::kLong).pinned_memory(device.is_cuda());
  const at::Tensor input_ids_BT = at::empty({std::ssize(rows), T}, options);
  const at::Tensor labels_BT = at::empty({std::ssize(rows), T}, options);
  for (int64_t b = 0; b < std::ssize(rows); ++b) {
    read_row(rows[b], T, input_ids_BT.data_ptr<int64_t>() + b * T,
             labels_BT.data_ptr<int64_t>() + b * T);
  }
  Batch batch{.input_ids_BT = input_ids_BT.to(device, /*non_blocking=*/true),
              .labels_BT = labels_BT.to(device, /*non_blocking=*/true),
              .lengths_vary = fill_ == RowFill::kPadToLongest};
  if (fill_ == RowFill::kPack) batch.documents = documents_of(rows, device);
  return batch;
}

}  // namespace fsdp
