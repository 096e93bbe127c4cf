// Chooses and calls libtorch's attention for a GPU, a head width and a dtype.
#pragma GCC diagnostic ignored "-Wreturn-type"
#include "trainer/kernels/attention_operators.h"

#include <ATen/ATen.h>

namespace fsdp {

// cuDNN's kernel is the fastest on Hopper. libtorch lets its backward add in any order even in
// deterministic mode, unlike the other kernels.
bool may_be_cudnn(at::ScalarType dtype, int capability_major) {
  return at::isReducedFloatingType(dtype) && capability_major == kHopper &&
         !at::globalContext().deterministicAlgorithms();
}

// Flash needs an Ampere GPU, and cuDNN heads of at most 128. libtorch offers cuDNN's kernel only
// for equally long sequences of more than one token, and takes 0.1 to 1 s to plan each new length.
// The memory-efficient kernel takes everything except grouped queries.
AttentionKernel choose_attention(c10::DeviceType device, int capability_major,
                                 const at::Tensor& q_BHTW, const Within& within) {
  if (device == at::kCPU) return AttentionKernel::kCpuFlash;
  const int64_t length = q_BHTW.size(2);
  const int64_t width = q_BHTW.size(3);
  if (!at::isReducedFloatingType(q_BHTW.scalar_type()) || capability_major < kAmpere) {
    return AttentionKernel::kEfficient;
  }
  if (may_be_cudnn(q_BHTW.scalar_type(), capability_major) && width <= 128 && length > 1 &&
      within.documents == nullptr && !within.lengths_vary) {
    return AttentionKernel::kCudnn;
  }
  return width <= 256 ? AttentionKernel::kCudaFlash : AttentionKernel::kEfficient;
}

at::Tensor expanded_heads(const at::Tensor& kv_BKTW, int64_t query_heads) {
  const int64_t group = query_heads / kv_BKTW.size(1);
  return group == 1 ? kv_BKTW : kv_BKTW.repeat_interleave(group, 1, query_heads);
}

at::Tensor summed_heads(const at::Tensor& dkv_BHTW, int64_t key_value_heads) {
  const int64_t heads = dkv_BHTW.size(1);
  if (heads == key_value_heads) return dkv_BHTW;
  return dkv_BHTW.unflatten(1, {key_value_heads, heads / key_value_heads}).sum(2);
}

at::Tensor padded_heads(const at::Tensor& x_BTHW, int64_t width) {
  const int64_t lacking = width - x_BTHW.size(-1);
  return lacking == 0 ? x_BTHW : at::constant_pad_nd(x_BTHW, {0, lacking});
}

at::Tensor empty_BHTW(const at::Tensor& like_BHTW) {
  return at::empty({like_BHTW.size(0), like_BHTW.size(2), like_BHTW.size(1), like_BHTW.size(3)},
                   like_BHTW.options())
      .transpose(1, 2);
}

Tensors attend(AttentionKernel kernel, const at::Tensor& q, const at::Tensor& k,
               const at::Tensor& v, const Within& within, bool for_backward) {
  if (within.documents != nullptr) return attend_within(within, kernel, q, k, v, for_backward);
  switch (kernel) {
    case AttentionKernel::kCpuFlash: {
      auto [out, log_sum_exp] =
          at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, kNoDropout, kCausal,
                                                          /*attn_mask=*/std::nullopt, within.scale);
      return {out, log_sum_exp};
    }
    case AttentionKernel::kCudaFlash: {
      auto result = at::_scaled_dot_product_flash_attention(
          q, k, v, kNoDropout, kCausal, /*return_debug_mask=*/false, within.scale);
      return {std::get<0>(result), std::get<1>(result), std::get<6>(result), std::get<7>(result)};
    }
    case AttentionKernel::kCudnn: {
      auto result = at::_scaled_dot_product_cudnn_attention(
          q, k, v, /*attn_bias=*/std::nullopt, for_backward, kNoDropout, kCausal,
          /*return_debug_mask=*/false, within.scale);
      return {std::get<0>(result), std::get<1>(result), std::get<6>(result), std::get<7>(result)};
    }
    case AttentionKernel::kEfficient: {
      auto [out, log_sum_exp, seed, offset] = at::_scaled_dot_product_efficient_attention(
          q, expanded_heads(k, q.size(1)), expanded_heads(v, q.size(1)),
          /*attn_bias=*/std::nullopt, for_backward, kNoDropout, kCausal, within.scale);
      return {out, log_sum_exp, seed, offset};
    }
  }
  TORCH_CHECK(false, "not an attention kernel");
}

Tensors attend_backward(AttentionKernel kernel, const at::Tensor& dout, const at::Tensor& q,
                        const at::Tensor& k, const at::Tensor& v, const Tensors& saved,
                        const Within& within) {
  if (within.documents != nullptr) {
    return attend_within_backward(within, kernel, dout, q, k, v, saved);
  }
  switch (kernel) {
    case AttentionKernel::kCpuFlash: {
      auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          dout, q, k, v, saved[kOut], saved[kLogSumExp], kNoDropout, kCausal,
          /*attn_mask=*/std::nullopt, within.scale);
      return {dq, dk, dv};
    }
    case AttentionKernel::kCudaFlash: {
      auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_backward(
          dout, q, k, v, saved[kOut], saved[kLogSumExp], /*cum_seq_q=*/{}, /*cum_seq_k=*/{},
          q.size(2), k.size(2), kNoDropout, kCausal, saved[kPhiloxSeed], saved[kPhiloxOffset],
          within.scale);
      return {dq, dk, dv};
    }
    case AttentionKernel::kCudnn: {
      auto [dq, dk, dv] = at::_scaled_dot_product_cudnn_attention_backward(
          dout, q, k, v, saved[kOut], saved[kLogSumExp], saved[kPhiloxSeed], saved[kPhiloxOffset],
          /*attn_bias=*/{}, /*cum_seq_q=*/{}, /*cum_seq_k=*/{}, q.size(2), k.size(2), kNoDropout,
          kCausal, within.scale);
      return {dq, dk, dv};
    }
    case AttentionKernel::kEfficient: {
      auto [dq, dk, dv, unused] = at::_scaled_dot_product_efficient_attention_backward(
          dout, q, expanded_heads(k, q.size(1)), expanded_heads(v, q.size(1)), /*attn_bias=*/{},
          saved[kOut], saved[kLogSumExp], saved[kPhiloxSeed], saved[kPhiloxOffset], kNoDropout,
          {true, true, true, false}, kCausal, within.scale);
      return {dq, summed_heads(dk, k.size(1)), summed_heads(dv, v.size(1))};
    }
  }
  TORCH_CHECK(false, "not an attention kernel");
}

const char* name_of(AttentionKernel kernel) {
  return kernel == AttentionKernel::kCudnn ? "cudnn_attention" : "flash_attention";
}

}  // namespace fsdp
