#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace fsdp {

// The documents of a batch with several documents in a row (packed sequences). No token attends to
// another document, and positions begin at 0 in each. The documents fill the rows one after
// another; none continues in another row. The object is immutable.
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

// Makes documents of `lengths` tokens in rows of `row_length`. On meta, their tensors have no
// values. Throws c10::Error if a document is empty or continues in the next row. Also throws if
// rows are not filled: padding must be a document too.
DocumentsPtr make_documents(const std::vector<int64_t>& lengths, int64_t row_length,
                            at::Device device);

}  // namespace fsdp
