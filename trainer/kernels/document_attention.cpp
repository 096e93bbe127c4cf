// Computes attention within documents: by kernels for several lengths, or one by one.
#pragma GCC diagnostic ignored "-Wreturn-type"
#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "trainer/kernels/attention_operators.h"

// A further shape suffix: N all tokens.
namespace fsdp {
namespace {

// For the memory-efficient kernel: each query sees the keys up to its own position.
constexpr int64_t kCausalMask = 1;

// A window in the kernels' terms. All kernels take nullopt for no window.
struct Window {
  explicit Window(int64_t window) {
    if (window == 0) return;
    tokens = window;
    left = window - 1;
    right = 0;
  }

  std::optional<int64_t> tokens;  // the query's own, and those before it
  std::optional<int64_t> left;    // before it
  std::optional<int64_t> right;   // after it
};

// Returns the mask to add to a document's scores; nullopt if the kernel's causal mask is enough.
std::optional<at::Tensor> mask_of(const at::Tensor& q_BHTW, int64_t window) {
  const int64_t length = q_BHTW.size(2);
  if (window == 0 || length <= window) return std::nullopt;
  const at::Tensor is_seen =
      at::ones({length, length}, q_BHTW.options().dtype(at::kBool)).tril_().triu_(1 - window);
  return at::zeros({length, length}, q_BHTW.options())
      .masked_fill_(is_seen.logical_not_(), -std::numeric_limits<double>::infinity());
}

at::Tensor as_NHW(const at::Tensor& x_BHTW) { return x_BHTW.transpose(1, 2).squeeze(0); }
at::Tensor from_NHW(const at::Tensor& x_NHW) { return x_NHW.unsqueeze(0).transpose(1, 2); }

// If every document had one token, flash attention would take its separate path for decoding.
int64_t longest_for_flash(const Documents& documents) {
  return std::max<int64_t>(documents.longest, 2);
}

// Calls attend(of_document) for each document. of_document(x) is x for the document's tokens only
// (dimension 2). `attend` returns a tensor for each of `outputs`, which is copied to the document's
// tokens there.
template <typename Attend>
void for_each_document(const Documents& documents, const Tensors& outputs, Attend&& attend) {
  for (int64_t i = 0; i < documents.count(); ++i) {
    const int64_t start = documents.starts[i];
    const int64_t length = documents.starts[i + 1] - start;
    const auto of_document = [&](const at::Tensor& x) { return x.narrow(2, start, length); };
    const Tensors results = attend(of_document);
    for (size_t j = 0; j < outputs.size(); ++j) of_document(outputs[j]).copy_(results[j]);
  }
}

}  // namespace

Tensors attend_within(const Within& within, AttentionKernel kernel, const at::Tensor& q,
                      const at::Tensor& k, const at::Tensor& v, bool for_backward) {
  const Documents& documents = *within.documents;
  const at::Tensor& starts = documents.starts_on_device;
  const Window window(within.window);
  switch (kernel) {
    case AttentionKernel::kCpuFlash: {
      Tensors saved = empty_outputs(kernel, q, k, v, &documents, for_backward);
      for_each_document(documents, saved, [&](const auto& of_document) {
        const auto mask = mask_of(of_document(q), within.window);
        auto [out, log_sum_exp] = at::_scaled_dot_product_flash_attention_for_cpu(
            of_document(q), of_document(k), of_document(v), kNoDropout, !mask, mask, within.scale);
        return Tensors{out, log_sum_exp};
      });
      return saved;
    }
    case AttentionKernel::kCudaFlash: {
      const int64_t longest = longest_for_flash(documents);
      auto result = at::_flash_attention_forward(
          as_NHW(q), as_NHW(k), as_NHW(v), starts, starts, longest, longest, kNoDropout, kCausal,
          /*return_debug_mask=*/false, within.scale, window.left, window.right);
      return {from_NHW(std::get<0>(result)), std::get<1>(result), std::get<2>(result),
              std::get<3>(result)};
    }
    case AttentionKernel::kEfficient: {
      auto result = at::_efficient_attention_forward(
          q.transpose(1, 2), expanded_heads(k, q.size(1)).transpose(1, 2),
          expanded_heads(v, q.size(1)).transpose(1, 2), /*bias=*/std::nullopt, starts, starts,
          documents.longest, documents.longest, kNoDropout, kCausalMask, for_backward, within.scale,
          /*seqlen_k=*/std::nullopt, window.tokens);
      return {std::get<0>(result).transpose(1, 2), std::get<1>(result), std::get<2>(result),
              std::get<3>(result)};
    }
    case AttentionKernel::kCudnn:
      break;
  }
  TORCH_CHECK(false, "not an attention kernel for documents");
}

Tensors attend_within_backward(const Within& within, AttentionKernel kernel, const at::Tensor& dout,
                               const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const Tensors& saved) {
  const Documents& documents = *within.documents;
  const at::Tensor& starts = documents.starts_on_device;
  const Window window(within.window);
  switch (kernel) {
    case AttentionKernel::kCpuFlash: {
      Tensors gradients = {empty_BHTW(q), empty_BHTW(k), empty_BHTW(v)};
      for_each_document(documents, gradients, [&](const auto& of_document) {
        const auto mask = mask_of(of_document(q), within.window);
        auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
            of_document(dout), of_document(q), of_document(k), of_document(v),
            of_document(saved[kOut]), of_document(saved[kLogSumExp]), kNoDropout, !mask, mask,
            within.scale);
        return Tensors{dq, dk, dv};
      });
      return gradients;
    }
    case AttentionKernel::kCudaFlash: {
      const int64_t longest = longest_for_flash(documents);
      auto [dq, dk, dv] = at::_flash_attention_backward(
          as_NHW(dout), as_NHW(q), as_NHW(k), as_NHW(v), as_NHW(saved[kOut]), saved[kLogSumExp],
          starts, starts, longest, longest, kNoDropout, kCausal, saved[kPhiloxSeed],
          saved[kPhiloxOffset], within.scale, window.left, window.right);
      return {from_NHW(dq), from_NHW(dk), from_NHW(dv)};
    }
    case AttentionKernel::kEfficient: {
      auto [dq, dk, dv, unused] = at::_efficient_attention_backward(
          dout.transpose(1, 2), q.transpose(1, 2), expanded_heads(k, q.size(1)).transpose(1, 2),
          expanded_heads(v, q.size(1)).transpose(1, 2), /*bias=*/std::nullopt,
          saved[kOut].transpose(1, 2), starts, starts, documents.longest, documents.longest,
          saved[kLogSumExp], kNoDropout, saved[kPhiloxSeed], saved[kPhiloxOffset], kCausalMask,
          /*bias_requires_grad=*/false, within.scale, /*num_splits_key=*/std::nullopt,
          window.tokens);
      return {dq.transpose(1, 2), summed_heads(dk.transpose(1, 2), k.size(1)),
              summed_heads(dv.transpose(1, 2), v.size(1))};
    }
    case AttentionKernel::kCudnn:
      break;
  }
  TORCH_CHECK(false, "not an attention kernel for documents");
}

}  // namespace fsdp
