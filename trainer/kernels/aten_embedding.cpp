// Reads rows of the embedding, and sums their gradients in fp32 before it adds them.
#include <ATen/ATen.h>

#include <algorithm>

#include "trainer/kernels/aten_kernels.h"
#include "trainer/kernels/launch.h"
#include "trainer/kernels/on_meta.h"
#include "trainer/kernels/wide_type.h"

namespace fsdp {

at::Tensor AtenKernels::embedding(const at::Tensor& weight_VD, const at::Tensor& token_ids_N) {
  return at::index(weight_VD, {token_ids_N});
}

namespace {

// The workspace of CUB's radix sort of `count` keys and values of 8 bytes
// (cub/device/dispatch/dispatch_radix_sort.cuh). It holds copies of the keys and of the values, and
// counts of digits: of all keys, and of each tile. Blackwell's tiles are larger, so it needs less.
int64_t sort_workspace_bytes(int64_t count) {
  constexpr int64_t kTile = 3840;
  constexpr int64_t kPart = 256;  // bytes; each part begins at a multiple
  constexpr int64_t kDigits = 256;
  constexpr int64_t kPasses = 8;
  const int64_t copied = (count * 8 + kPart - 1) / kPart * kPart;
  const int64_t tiles = (count + kTile - 1) / kTile;
  return 2 * copied + kDigits * (kPasses * 8 + tiles * 4) + kPart + (kPart - 1);
}

// Allocates as embedding_dense_backward of libtorch 2.11 does on a GPU (Embedding.cu,
// EmbeddingBackwardKernel.cu), and returns the sums. libtorch sorts the rows if there are many. It
// then sums parts of at most 10 rows with equal ids, each part in its own memory. If there are few
// sums of many parts, it adds the parts to the sums atomically instead. The workspace that finds
// equal ids is left out: the sort or the sums need more.
at::Tensor planned_sums(const at::Tensor& dy_ND, const at::Tensor& row_ids_N, int64_t rows) {
  constexpr int64_t kUnsortedMax = 3072;
  constexpr int64_t kRowsOfPart = 10;
  constexpr int64_t kFewSums = 4 * kPlannedMultiprocessors;
  const at::Tensor in_order_ND = dy_ND.contiguous();
  const int64_t count = row_ids_N.size(0);
  const auto empty_ids = [&](int64_t size) { return at::empty({size}, row_ids_N.options()); };
  const auto empty_rows = [&](int64_t size) {
    return at::empty({size, dy_ND.size(1)}, dy_ND.options());
  };
  if (count <= kUnsortedMax) return empty_rows(rows);
  const Tensors sorted = {empty_ids(count), empty_ids(count)};
  {
    const at::Tensor counted_N = empty_ids(count);
    at::empty({sort_workspace_bytes(count)}, row_ids_N.options().dtype(at::kByte));
  }
  const at::Tensor sums = empty_rows(rows);
  const int64_t groups = std::min(count, rows);
  const int64_t parts = count / kRowsOfPart + groups;
  const bool adds_atomically =
      !at::globalContext().deterministicAlgorithms() && groups < kFewSums && parts > 4 * groups;
  const Tensors workspace = {empty_ids(1),
                             empty_ids(1),
                             empty_ids(count),
                             empty_ids(groups),
                             empty_ids(groups),
                             empty_ids(parts),
                             adds_atomically ? empty_ids(parts) : empty_rows(parts)};
  return sums;
}

// Returns [rows, D]. Row r is the sum of dy's rows with id r, in fp32 for narrower types.
at::Tensor summed_rows(const at::Tensor& narrow_dy_ND, const at::Tensor& row_ids_N, int64_t rows) {
  const at::Tensor dy_ND = narrow_dy_ND.to(wide_type(narrow_dy_ND));
  return launch_operator(
      "embedding_dense_backward", {dy_ND, row_ids_N},
      [&] {
        return Tensors{at::embedding_dense_backward(dy_ND, row_ids_N, rows, /*padding_idx=*/-1,
                                                    /*scale_grad_by_freq=*/false)};
      },
      [&] { return Tensors{planned_sums(dy_ND, row_ids_N, rows)}; })[0];
}

// Computes weight[ids[i]] += rows[i].
void add_rows(const at::Tensor& weight_VD, const at::Tensor& ids_N, const at::Tensor& rows_ND) {
  const at::Tensor terms_ND = rows_ND.to(weight_VD.scalar_type());
  launch("index_add_", {terms_ND, ids_N}, {weight_VD},
         [&] { at::Tensor(weight_VD).index_add_(0, ids_N, terms_ND); });
}

// Adds rows as add_rows does, but first sums rows of equal ids in fp32. Adding them in place on a
// GPU would be atomic, in no fixed order, and rounded to the weight's type each time.
void add_summed_rows(const at::Tensor& weight_VD, const at::Tensor& ids_N,
                     const at::Tensor& rows_ND) {
  const int64_t count = ids_N.size(0);
  const int64_t vocabulary = weight_VD.size(0);
  if (count >= vocabulary) {
    const at::Tensor sums_VD = summed_rows(rows_ND, ids_N, vocabulary);
    at::Tensor(weight_VD).add_(sums_VD.to(weight_VD.scalar_type()));
    return;
  }
  const auto [sorted_N, order_N] = ids_N.sort();
  at::Tensor group_N = at::zeros_like(sorted_N);  // numbers the groups of equal ids from 0
  group_N.narrow(0, 1, count - 1)
      .copy_(sorted_N.narrow(0, 1, count - 1).ne(sorted_N.narrow(0, 0, count - 1)));
  group_N.cumsum_(0);
  const at::Tensor group_of_row_N = at::empty_like(group_N).scatter_(0, order_N, group_N);
  // There may be fewer than `count` groups. Each missing group g adds 0 to row g.
  const at::Tensor id_of_group_N =
      counted(0, count, ids_N.options()).scatter_(0, group_N, sorted_N);
  add_rows(weight_VD, id_of_group_N, summed_rows(rows_ND, group_of_row_N, count));
}

}  // namespace

void AtenKernels::embedding_backward(const at::Tensor& dy_ND, const at::Tensor& token_ids_N,
                                     GradientBuffer& dweight_VD) {
  if (!dweight_VD.is_written) dweight_VD.tensor.zero_();
  dweight_VD.is_written = true;
  if (device_ == at::kCUDA) {
    add_summed_rows(dweight_VD.tensor, token_ids_N, dy_ND);
  } else {
    add_rows(dweight_VD.tensor, token_ids_N, dy_ND);
  }
}

}  // namespace fsdp
