#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace fsdp {

// The documents of a batch whose rows hold several (packed sequences): no token attends to another
// document, and positions begin at 0 in each. They follow each other through the rows, and fill
// them; none goes on in another row. Nothing in it changes once it is made.
//
// Shape suffixes: N tokens of all rows.
struct Documents {
  std::vector<int64_t> starts;  // on the host: the first token of each, in order, and N
  at::Tensor starts_on_device;  // the same, int32: what attention kernels call cu_seqlens
  at::Tensor position_ids_N;    // int64, on the device: a token's place in its document
  int64_t longest = 0;          // tokens

  int64_t count() const { return std::ssize(starts) - 1; }
  int64_t token_count() const { return starts.back(); }
};

using DocumentsPtr = std::shared_ptr<const Documents>;

// Documents of `lengths` tokens in rows of `row_length`. On meta their tensors have no values.
// Throws c10::Error for a document that is empty or does not end in the row that it begins in, and
// for rows that are not filled: what pads a row is a document too.
DocumentsPtr make_documents(const std::vector<int64_t>& lengths, int64_t row_length,
                            at::Device device);

}  // namespace fsdp
