#include <ATen/ATen.h>

#include "trainer/kernels/attention_operators.h"

// What libtorch 2.11's kernels for attention allocate. What cuDNN takes in backward is known only
// when it has made a plan for the GPU: none is counted.
namespace fsdp {
namespace {

int64_t rounded_up(int64_t number, int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

// Of flash attention's backward (flash_api.cpp, mha_bwd and mha_varlen_bwd): a sum for each query,
// dq in fp32, and for grouped queries dk and dv of every query head. Sequences begin at blocks of
// queries, documents are that far apart. In a fixed order dq is added up by as many at a time as
// keep all multiprocessors busy, each in a place of its own.
Tensors flash_backward_workspace(const at::Tensor& q, const at::Tensor& k,
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
  Tensors workspace = {at::empty({heads, queries}, wide),
                       at::empty({parts, queries, heads, width}, wide)};
  if (k.size(1) != heads) {
    for (int i = 0; i < 2; ++i) workspace.push_back(empty_BHTW(q));
  }
  return workspace;
}

}  // namespace

Tensors empty_outputs(AttentionKernel kernel, const at::Tensor& q, const Documents* documents) {
  const at::ScalarType wide = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  std::vector<int64_t> queries = {q.size(0), q.size(1), q.size(2)};
  if (documents != nullptr && kernel == AttentionKernel::kEfficient) {
    constexpr int64_t kAlignment = 32;
    queries[0] = documents->count();
    queries[2] = (documents->longest + kAlignment - 1) / kAlignment * kAlignment;
  }
  Tensors saved = {empty_BHTW(q), at::empty(queries, q.options().dtype(wide))};
  if (kernel == AttentionKernel::kCpuFlash) return saved;
  for (int i = 0; i < 2; ++i) saved.push_back(at::empty({}, q.options().dtype(at::kLong)));
  return saved;
}

Tensors empty_gradients(AttentionKernel kernel, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const Documents* documents) {
  Tensors gradients = {empty_BHTW(q), empty_BHTW(k), empty_BHTW(v)};
  if (kernel == AttentionKernel::kCudaFlash) flash_backward_workspace(q, k, documents);
  return gradients;
}

}  // namespace fsdp
