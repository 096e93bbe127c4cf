// Makes the tables of documents that attention reads. Documents fill their rows.
#include "trainer/kernels/documents.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace fsdp {
namespace {

// Throws unless the documents fill rows and each lies within one row.
void check_lengths(const std::vector<int64_t>& lengths, int64_t row_length) {
  TORCH_CHECK(!lengths.empty(), "a batch of documents has none");
  int64_t row = 0;
  int64_t column = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    TORCH_CHECK(lengths[i] > 0, "document ", i, " has ", lengths[i],
                " tokens: leave out empty documents");
    TORCH_CHECK(lengths[i] <= row_length - column, "document ", i, " has ", lengths[i],
                " tokens, but row ", row, " has room for ", row_length - column, " of its ",
                row_length, ": a document ends in the row that it begins in; split it, or pad the ",
                "row before it with a document without labels");
    column += lengths[i];
    if (column == row_length) {
      ++row;
      column = 0;
    }
  }
  TORCH_CHECK(column == 0, "the documents end at token ", column, " of row ", row, ", which has ",
              row_length, ": pad it with a document without labels");
}

}  // namespace

DocumentsPtr make_documents(const std::vector<int64_t>& lengths, int64_t row_length,
                            at::Device device) {
  check_lengths(lengths, row_length);
  auto documents = std::make_shared<Documents>();
  documents->starts = {0};
  std::partial_sum(lengths.begin(), lengths.end(), std::back_inserter(documents->starts));
  documents->longest = *std::max_element(lengths.begin(), lengths.end());
  const int64_t tokens = documents->token_count();
  TORCH_CHECK(tokens <= std::numeric_limits<int32_t>::max(), "documents of ", tokens,
              " tokens are more than 2^31 - 1: use a smaller micro-batch");

  // The tensors are filled on the host; on meta there is nothing to fill.
  const auto options =
      at::device(device.is_meta() ? device : at::Device(at::kCPU)).pinned_memory(device.is_cuda());
  const at::Tensor starts = at::empty({std::ssize(documents->starts)}, options.dtype(at::kInt));
  const at::Tensor position_ids_N = at::empty({tokens}, options.dtype(at::kLong));
  if (!device.is_meta()) {
    std::copy(documents->starts.begin(), documents->starts.end(), starts.data_ptr<int32_t>());
    int64_t* positions = position_ids_N.data_ptr<int64_t>();
    for (const int64_t length : lengths) {
      std::iota(positions, positions + length, 0);
      positions += length;
    }
  }
  documents->starts_on_device = starts.to(device, /*non_blocking=*/true);
  documents->position_ids_N = position_ids_N.to(device, /*non_blocking=*/true);
  return documents;
}

}  // namespace fsdp
