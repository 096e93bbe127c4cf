#pragma once

#include <memory>
#include <vector>

#include "contract/spec/run_spec.h"
#include "formats/data/document.h"
#include "trainer/data/data_set.h"

namespace fsdp {

// Rows of T = sequence_length() tokens. A document of n tokens takes n - 1 places of a row. The
// model reads all but its last token, and predicts all but its first. A document longer than T + 1
// is cut. With `data.kind: text`, its rest is another document, which begins with the last token of
// the part before. With `data.rows: pack`, a row holds as many of the next documents as fit whole;
// otherwise it holds one. A micro-batch is T wide, with pad_to_longest as wide as its longest row.
class SequenceSet : public DataSet {
 public:
  // Makes rows of the `documents` that `numbers` lists, in this order.
  SequenceSet(std::shared_ptr<const DocumentFile> documents, std::vector<int64_t> numbers,
              const DataSpec& data);

  int64_t rows() const override { return std::ssize(first_of_row_) - 1; }
  int64_t sequence_length() const { return sequence_length_; }

  RowSize size_of(int64_t row) override;
  int64_t batch_tokens(std::span<const int64_t> rows) override;
  Batch load(std::span<const int64_t> rows, at::Device device) override;

  // Returns the number of places that each document of the row takes.
  std::vector<int64_t> document_lengths(int64_t row) const;
  // Writes `width` input ids and labels, with kNoLabel where nothing is trained on. `width` is at
  // least the length of the row's documents. labels[t] is the token that follows input_ids[t].
  void read_row(int64_t row, int64_t width, int64_t* input_ids, int64_t* labels);

 private:
  struct Part {
    int64_t document;
    int64_t begin;  // among its tokens
  };

  int64_t width_of(std::span<const int64_t> rows);
  DocumentsPtr documents_of(std::span<const int64_t> rows, at::Device device) const;
  int64_t length_of(const Part& part) const;  // the places that it takes
  void read(const Part& part);                // into document_

  std::shared_ptr<const DocumentFile> documents_;
  std::vector<Part> parts_;
  std::vector<int64_t> first_of_row_;  // indices into parts_, and at the end parts_'s size
  int64_t sequence_length_;
  RowFill fill_;
  Document document_;
};

}  // namespace fsdp
