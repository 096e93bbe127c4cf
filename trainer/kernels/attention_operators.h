#pragma once

#include <cmath>

#include "trainer/kernels/aten_kernels.h"
#include "trainer/kernels/documents.h"
#include "trainer/kernels/kernels.h"
#include "trainer/kernels/launch.h"

// libtorch's kernels for causal attention, for aten_attention.cpp. Queries, keys and values are
// views [B, heads, T, W], with any strides except W's. There is no dropout.
//
// Shape suffixes: B sequences, T tokens of each, H query heads, K key/value heads, W head width.
namespace fsdp {

inline constexpr double kNoDropout = 0.0;
inline constexpr bool kCausal = true;

enum class AttentionKernel { kCpuFlash, kCudaFlash, kCudnn, kEfficient };

// The bounds of attention, and the scale of its scores. If `documents` is not null, they divide one
// sequence of all tokens (B is 1). Only documents can have a window, the most tokens that a query
// sees.
struct Within {
  const Documents* documents = nullptr;
  int64_t window = 0;         // 0: none, or no document is longer
  bool lengths_vary = false;  // see RotaryTable
  double scale = 1.0;         // 1 / sqrt(width) of heads before padding

  Within(const RotaryTable& table, const AttentionHeads& heads)
      : documents(table.documents.get()),
        window(documents != nullptr && heads.window < documents->longest ? heads.window : 0),
        lengths_vary(table.lengths_vary),
        scale(1.0 / std::sqrt(static_cast<double>(heads.width))) {}
};

// The outputs that a kernel's backward reads: out_BHTW, the log-sum-exp of each query, and others.
enum SavedByAttention { kOut, kLogSumExp, kPhiloxSeed, kPhiloxOffset };

// True if cuDNN may compute attention on GPUs with this major number of the compute capability.
bool may_be_cudnn(at::ScalarType dtype, int capability_major);
// `capability_major` is the same as for AtenKernels.
AttentionKernel choose_attention(c10::DeviceType device, int capability_major,
                                 const at::Tensor& q_BHTW, const Within& within);
const char* name_of(AttentionKernel kernel);

Tensors attend(AttentionKernel kernel, const at::Tensor& q, const at::Tensor& k,
               const at::Tensor& v, const Within& within, bool for_backward);
// Returns the kernel's outputs without values. Allocates other memory too, as on a GPU, but
// releases it before returning. This function and the next three are in planned_attention.cpp.
Tensors empty_outputs(AttentionKernel kernel, const at::Tensor& q, const at::Tensor& k,
                      const at::Tensor& v, const Documents* documents, bool for_backward);
Tensors empty_gradients(AttentionKernel kernel, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const Documents* documents);
// For the memory-efficient kernel: the number of queries in its log-sum-exp, and the workspace of
// its backward beside the gradients.
int64_t queries_of_log_sum_exp(int64_t queries);
Tensors efficient_backward_workspace(const at::Tensor& q_BHTW, const Documents* documents);

// Returns the gradients of q, k and v.
Tensors attend_backward(AttentionKernel kernel, const at::Tensor& dout, const at::Tensor& q,
                        const at::Tensor& k, const at::Tensor& v, const Tensors& saved,
                        const Within& within);
// The same for documents: within.documents is not null. In document_attention.cpp.
Tensors attend_within(const Within& within, AttentionKernel kernel, const at::Tensor& q,
                      const at::Tensor& k, const at::Tensor& v, bool for_backward);
Tensors attend_within_backward(const Within& within, AttentionKernel kernel, const at::Tensor& dout,
                               const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const Tensors& saved);

// For kernels without grouped queries: repeats keys or values for every query head, and sums the
// gradients of the repeated heads.
at::Tensor expanded_heads(const at::Tensor& kv_BKTW, int64_t query_heads);
at::Tensor summed_heads(const at::Tensor& dkv_BHTW, int64_t key_value_heads);

// Returns x [B, T, heads, W] with zeros behind each head, up to `width`. Zeros add nothing to
// scores and sums.
at::Tensor padded_heads(const at::Tensor& x_BTHW, int64_t width);

// Returns an empty tensor of the same shape, with the memory layout [B, T, H, W].
at::Tensor empty_BHTW(const at::Tensor& like_BHTW);

}  // namespace fsdp
