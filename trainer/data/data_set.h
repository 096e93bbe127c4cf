#pragma once

#include <cstdint>
#include <span>

#include "trainer/model/model.h"

namespace fsdp {

// What a row holds.
struct RowSize {
  int64_t tokens = 0;  // that the model reads, without those that only fill it up
  int64_t labels = 0;  // that it is trained on
};

// The rows that a model is trained on, made of documents. Not thread-safe.
class DataSet {
 public:
  virtual ~DataSet() = default;

  virtual int64_t rows() const = 0;
  virtual RowSize size_of(int64_t row) = 0;
  // The tokens of a micro-batch of these rows, filling included.
  virtual int64_t batch_tokens(std::span<const int64_t> rows) = 0;
  // The micro-batch, on `device`. For CUDA the copies are queued on the current stream from pinned
  // memory.
  virtual Batch load(std::span<const int64_t> rows, at::Device device) = 0;
};

}  // namespace fsdp
