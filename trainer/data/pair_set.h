#pragma once

#include <memory>
#include <vector>

#include "contract/families/model_config.h"
#include "contract/spec/run_spec.h"
#include "formats/data/document.h"
#include "trainer/data/data_set.h"

namespace fsdp {

// Rows for an encoder and a decoder, one document each. The encoder reads the tokens before the
// first one that is trained on, cut to data.input_length. The decoder predicts the rest, cut to
// data.target_length. It reads the model's decoder_start_token_id and then its previous tokens. A
// micro-batch has these lengths. With `data.rows: pad_to_longest`, it has the lengths of its
// longest input and its longest target. Shorter rows are filled with the model's pad_token_id.
class PairSet : public DataSet {
 public:
  // Makes rows of the `documents` that `numbers` lists, in this order. data.rows must not be
  // `pack`.
  PairSet(std::shared_ptr<const DocumentFile> documents, std::vector<int64_t> numbers,
          const DataSpec& data, const ModelConfig& config);

  int64_t rows() const override { return std::ssize(numbers_); }
  RowSize size_of(int64_t row) override;
  int64_t batch_tokens(std::span<const int64_t> rows) override;
  Batch load(std::span<const int64_t> rows, at::Device device) override;

 private:
  struct Width {
    int64_t input = 1;
    int64_t target = 1;
  };
  Width width_of(std::span<const int64_t> rows);
  void read(int64_t row);  // into input_ and target_

  std::shared_ptr<const DocumentFile> documents_;
  std::vector<int64_t> numbers_;
  Width most_;
  bool pads_to_longest_;
  int64_t start_id_;
  int64_t padding_id_;
  Document document_;
  std::vector<int64_t> input_;
  std::vector<int64_t> target_;
};

}  // namespace fsdp
