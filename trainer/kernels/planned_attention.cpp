// The allocations of libtorch 2.11's kernels for attention. cuDNN's memory in backward is not
// counted. It is unknown until cuDNN has made a plan for the GPU.
#include <ATen/ATen.h>

#include "trainer/kernels/attention_operators.h"

namespace fsdp {
namespace {

int64_t rounded_up(int64_t number, int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

// Allocates and releases the workspace of flash attention's backward (flash_api.cpp, mha_bwd and
// mha_varlen_bwd). It holds a sum for each query, dq in fp32, and for grouped queries dk and dv of
// every query head. Sequences are rounded up to whole blocks of queries; a document takes one block
// more than its tokens. In deterministic mode, several parts of dq are summed at a time, each in
// its own memory, to keep all multiprocessors busy. The workspace is released in reverse order.
void flash_backward_workspace(const at::Tensor& q, const at::Tensor& k,
                              const Documents* documents) {
  constexpr int64_t kBlock = 128;
  const int64_t heads = q.size(1);
  const int64_t width = rounded_up(q.size(3), q.size(3) <= 128 ? 32 : 64);
  const int64_t sequences = documents != nullptr ? documents->count() : q.size(0);
  const int64_t queries = documents != nullptr ? q.size(2) + kBlock * sequences
                                               : sequences * rounded_up(q.size(2), kBlock);
  const bool is_deterministic = at::globalContext().deterministicAlgorithms();
  const int64_t parts =
      is_deterministic ? (kPlannedMultiprocessors + sequences * heads - 1) / (sequences * heads)
                       : 1;
  const at::TensorOptions wide = q.options().dtype(at::kFloat);
  const at::Tensor sums = at::empty({heads, queries}, wide);
  const at::Tensor wide_dq = at::empty({parts, queries, heads, width}, wide);
  if (k.size(1) == heads) return;
  const at::Tensor expanded_dk = empty_BHTW(q);
  const at::Tensor expanded_dv = empty_BHTW(q);
}

}  // namespace

int64_t queries_of_log_sum_exp(int64_t queries) {
  constexpr int64_t kAlignment = 32;
  return rounded_up(queries, kAlignment);
}

// Allocates as attention_backward.cu and kernel_backward.h do, for compute capability 8 and above,
// and for heads of at most 64 on 7.5. For 16-bit heads wider than 128, the fp32 dk and dv are left
// out.
Tensors efficient_backward_workspace(const at::Tensor& q, const Documents* documents) {
  const at::TensorOptions wide = q.options().dtype(at::kFloat);
  const int64_t heads = q.size(1);
  const int64_t width = q.size(3);
  const bool is_narrow = at::isReducedFloatingType(q.scalar_type());
  at::Tensor product_BHTW, sums_BTH;  // out * dout, and its sums in another order
  if (!is_narrow) {
    product_BHTW = empty_BHTW(q);
    sums_BTH = at::empty({q.size(0), q.size(2), heads}, wide);
  }
  const at::Tensor sums_BHT = at::empty({q.size(0), heads, q.size(2)}, wide);
  sums_BTH.reset();
  product_BHTW.reset();
  const int64_t tile_rows = width <= 64 ? 64 : 128;
  const int64_t tile_columns = is_narrow && width > 64 && width <= 128 ? 128 : 64;
  constexpr int64_t kTileHeader = 4;  // a lock and a counter
  const int64_t sequences = documents != nullptr ? documents->count() : q.size(0);
  const int64_t queries = documents != nullptr ? documents->longest : q.size(2);
  const int64_t tiles =
      rounded_up(queries, tile_rows) / tile_rows * (rounded_up(width, tile_columns) / tile_columns);
  return {sums_BHT,
          at::empty({sequences * heads * tiles, tile_rows * tile_columns + kTileHeader}, wide)};
}

Tensors empty_outputs(AttentionKernel kernel, const at::Tensor& q, const at::Tensor& k,
                      const at::Tensor& v, const Documents* documents, bool for_backward) {
  const at::ScalarType wide = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  std::vector<int64_t> queries = {q.size(0), q.size(1), q.size(2)};
  Tensors expanded;
  if (kernel == AttentionKernel::kEfficient) {
    expanded = {expanded_heads(k, q.size(1)), expanded_heads(v, q.size(1))};
    queries[0] = documents != nullptr ? documents->count() : q.size(0);
    queries[2] = queries_of_log_sum_exp(documents != nullptr ? documents->longest : q.size(2));
    if (!for_backward) queries[2] = 0;
  }
  Tensors saved = {empty_BHTW(q), at::empty(queries, q.options().dtype(wide))};
  if (kernel == AttentionKernel::kCpuFlash) return saved;
  // Dropout's seed and offset: on the host for the memory-efficient kernel, one tensor for flash.
  const bool is_on_host = kernel == AttentionKernel::kEfficient;
  const at::TensorOptions of_dropout =
      q.options().dtype(at::kLong).device(is_on_host ? at::kCPU : q.device().type());
  const std::vector<int64_t> both = {2}, number = {};
  saved.push_back(at::empty(kernel == AttentionKernel::kCudaFlash ? both : number, of_dropout));
  saved.push_back(at::empty(number, of_dropout));
  return saved;
}

Tensors empty_gradients(AttentionKernel kernel, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const Documents* documents) {
  if (kernel == AttentionKernel::kEfficient) {
    Tensors expanded = {expanded_heads(k, q.size(1)), expanded_heads(v, q.size(1))};
    const Tensors d = {empty_BHTW(q), empty_BHTW(expanded[0]), empty_BHTW(expanded[1])};
    efficient_backward_workspace(q, documents);
    expanded.clear();
    return {d[0], summed_heads(d[1], k.size(1)), summed_heads(d[2], v.size(1))};
  }
  Tensors gradients = {empty_BHTW(q), empty_BHTW(k), empty_BHTW(v)};
  if (kernel == AttentionKernel::kCudaFlash) flash_backward_workspace(q, k, documents);
  return gradients;
}

}  // namespace fsdp
