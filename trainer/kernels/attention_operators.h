#pragma once

#include "trainer/kernels/aten_kernels.h"
#include "trainer/kernels/documents.h"
#include "trainer/kernels/kernels.h"
#include "trainer/kernels/launch.h"

// libtorch's kernels for causal attention, for aten_attention.cpp: between queries, keys and values
// as views [B, heads, T, W], of any strides but W's. Scaled by 1 / sqrt(W), no dropout.
//
// Shape suffixes: B sequences, T tokens of one, H query heads, K key/value heads, W head width.
namespace fsdp {

inline constexpr double kNoDropout = 0.0;
inline constexpr bool kCausal = true;

enum class AttentionKernel { kCpuFlash, kCudaFlash, kCudnn, kEfficient };

// What attention stays within. Documents: null, or those of the one sequence that then is all
// tokens (B is 1). A window, the most tokens that a query sees, is there for documents only.
struct Within {
  const Documents* documents = nullptr;
  int64_t window = 0;         // 0: none, or none that any document is longer than
  bool lengths_vary = false;  // see RotaryTable

  Within(const RotaryTable& table, const AttentionHeads& heads)
      : documents(table.documents.get()),
        window(documents != nullptr && heads.window < documents->longest ? heads.window : 0),
        lengths_vary(table.lengths_vary) {}
};

// What a kernel gives and wants back: out_BHTW, the log-sum-exp of each query, and what else its
// backward reads.
enum SavedByAttention { kOut, kLogSumExp, kPhiloxSeed, kPhiloxOffset };

// True if attention may be cuDNN's on GPUs whose compute capability begins so.
bool may_be_cudnn(at::ScalarType dtype, int capability_major);
// `capability_major`: as of AtenKernels.
AttentionKernel choose_attention(c10::DeviceType device, int capability_major,
                                 const at::Tensor& q_BHTW, const Within& within);
const char* name_of(AttentionKernel kernel);

Tensors attend(AttentionKernel kernel, const at::Tensor& q, const at::Tensor& k,
               const at::Tensor& v, const Within& within, bool for_backward);
// What it gives, without values; what else it takes, as on a GPU, is released before it returns.
// This and what follows is in planned_attention.cpp.
Tensors empty_outputs(AttentionKernel kernel, const at::Tensor& q, const at::Tensor& k,
                      const at::Tensor& v, const Documents* documents, bool for_backward);
Tensors empty_gradients(AttentionKernel kernel, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const Documents* documents);
// Of the memory-efficient kernel: for how many queries its log-sum-exp has room, and what its
// backward takes beside the gradients.
int64_t queries_of_log_sum_exp(int64_t queries);
Tensors efficient_backward_workspace(const at::Tensor& q_BHTW, const Documents* documents);

// The gradients of q, k and v.
Tensors attend_backward(AttentionKernel kernel, const at::Tensor& dout, const at::Tensor& q,
                        const at::Tensor& k, const at::Tensor& v, const Tensors& saved,
                        const Within& within);
// Both for documents (document_attention.cpp).
Tensors attend_within(const Within& within, AttentionKernel kernel, const at::Tensor& q,
                      const at::Tensor& k, const at::Tensor& v, bool for_backward);
Tensors attend_within_backward(const Within& within, AttentionKernel kernel, const at::Tensor& dout,
                               const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const Tensors& saved);

// What kernels that know no grouped queries take in the place of keys or values, and what becomes
// of those gradients.
at::Tensor expanded_heads(const at::Tensor& kv_BKTW, int64_t query_heads);
at::Tensor summed_heads(const at::Tensor& dkv_BHTW, int64_t key_value_heads);

// In memory [B, T, H, W].
at::Tensor empty_BHTW(const at::Tensor& like_BHTW);

}  // namespace fsdp
