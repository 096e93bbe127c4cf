#pragma once

#include <cstdint>
#include <span>

#include "trainer/model/model.h"

namespace fsdp {

// The size of a row.
struct RowSize {
  int64_t tokens = 0;  // read by the model, without filling
  int64_t labels = 0;  // trained on
};

// The rows that a model is trained on, made of documents. Not thread-safe.
class DataSet {
 public:
  virtual ~DataSet() = default;

  virtual int64_t rows() const = 0;
  virtual RowSize size_of(int64_t row) = 0;
  // Returns the number of tokens in a micro-batch of these rows, including filling.
  virtual int64_t batch_tokens(std::span<const int64_t> rows) = 0;
  // Returns the micro-batch on `device`. For CUDA, copies from pinned memory are queued on the
  // current stream.
  virtual Batch load(std::span<const int64_t> rows, at::Device device) = 0;
};

}  // namespace fsdp
