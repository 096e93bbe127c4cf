#ifdef FSDP_CUDA
#include <c10/cuda/CUDAException.h>
#endif

#include "trainer/kernels/aten_kernels.h"
#include "trainer/kernels/launch.h"

// Further shape suffixes: B sequences, T tokens of one, H query heads, K key/value heads, W head
// width.
namespace fsdp {
namespace {

constexpr double kNoDropout = 0.0;

// What a kernel of libtorch gives and wants back: out_BHTW, the log-sum-exp of each query, and what
// else its backward reads.
enum Saved { kOut, kLogSumExp, kPhiloxSeed, kPhiloxOffset };

enum class Kernel { kCpuFlash, kCudaFlash, kCudnn, kEfficient };

int capability_major([[maybe_unused]] const at::Tensor& on_gpu) {
  int major = 9;  // planned for
#ifdef FSDP_CUDA
  if (on_gpu.is_meta()) return major;
  C10_CUDA_CHECK(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, on_gpu.device().index()));
#endif
  return major;
}

// The 16-bit kernels want heads of certain widths, flash an Ampere GPU; cuDNN's is the fastest on
// Hopper. The memory-efficient one takes everything, but knows no grouped queries.
Kernel choose_kernel(c10::DeviceType device, const at::Tensor& q_BHTW) {
  if (device == at::kCPU) return Kernel::kCpuFlash;
  const int64_t width = q_BHTW.size(-1);
  const int major = capability_major(q_BHTW);
  if (!at::isReducedFloatingType(q_BHTW.scalar_type()) || width % 8 != 0 || major < 8) {
    return Kernel::kEfficient;
  }
  // libtorch lets cuDNN's backward add in any order also where its others do not.
  const bool is_deterministic = at::globalContext().deterministicAlgorithms();
  if (major == 9 && width <= 128 && !is_deterministic) return Kernel::kCudnn;
  return width <= 256 ? Kernel::kCudaFlash : Kernel::kEfficient;
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

at::Tensor empty_BHTW(const at::Tensor& like_BHTW) {
  return at::empty({like_BHTW.size(0), like_BHTW.size(2), like_BHTW.size(1), like_BHTW.size(3)},
                   like_BHTW.options())
      .transpose(1, 2);
}

Tensors attend_on_meta(Kernel kernel, const at::Tensor& q) {
  const at::ScalarType wide = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  Tensors saved = {empty_BHTW(q),
                   at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(wide))};
  if (kernel == Kernel::kCpuFlash) return saved;
  for (int i = 0; i < 2; ++i) saved.push_back(at::empty({}, q.options().dtype(at::kLong)));
  return saved;
}

Tensors attend(Kernel kernel, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
               bool for_backward) {
  constexpr bool kCausal = true;
  switch (kernel) {
    case Kernel::kCpuFlash: {
      auto [out, log_sum_exp] =
          at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, kNoDropout, kCausal);
      return {out, log_sum_exp};
    }
    case Kernel::kCudaFlash: {
      auto result = at::_scaled_dot_product_flash_attention(q, k, v, kNoDropout, kCausal);
      return {std::get<0>(result), std::get<1>(result), std::get<6>(result), std::get<7>(result)};
    }
    case Kernel::kCudnn: {
      auto result = at::_scaled_dot_product_cudnn_attention(q, k, v, /*attn_bias=*/std::nullopt,
                                                            for_backward, kNoDropout, kCausal);
      return {std::get<0>(result), std::get<1>(result), std::get<6>(result), std::get<7>(result)};
    }
    case Kernel::kEfficient: {
      auto [out, log_sum_exp, seed, offset] = at::_scaled_dot_product_efficient_attention(
          q, expanded_heads(k, q.size(1)), expanded_heads(v, q.size(1)),
          /*attn_bias=*/std::nullopt, for_backward, kNoDropout, kCausal);
      return {out, log_sum_exp, seed, offset};
    }
  }
  TORCH_CHECK(false, "not an attention kernel");
}

// The gradients of q, k and v.
Tensors attend_backward(Kernel kernel, const at::Tensor& dout, const at::Tensor& q,
                        const at::Tensor& k, const at::Tensor& v, const Tensors& saved) {
  constexpr bool kCausal = true;
  switch (kernel) {
    case Kernel::kCpuFlash: {
      auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          dout, q, k, v, saved[kOut], saved[kLogSumExp], kNoDropout, kCausal);
      return {dq, dk, dv};
    }
    case Kernel::kCudaFlash: {
      auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_backward(
          dout, q, k, v, saved[kOut], saved[kLogSumExp], /*cum_seq_q=*/{}, /*cum_seq_k=*/{},
          q.size(2), k.size(2), kNoDropout, kCausal, saved[kPhiloxSeed], saved[kPhiloxOffset]);
      return {dq, dk, dv};
    }
    case Kernel::kCudnn: {
      auto [dq, dk, dv] = at::_scaled_dot_product_cudnn_attention_backward(
          dout, q, k, v, saved[kOut], saved[kLogSumExp], saved[kPhiloxSeed], saved[kPhiloxOffset],
          /*attn_bias=*/{}, /*cum_seq_q=*/{}, /*cum_seq_k=*/{}, q.size(2), k.size(2), kNoDropout,
          kCausal);
      return {dq, dk, dv};
    }
    case Kernel::kEfficient: {
      auto [dq, dk, dv, unused] = at::_scaled_dot_product_efficient_attention_backward(
          dout, q, expanded_heads(k, q.size(1)), expanded_heads(v, q.size(1)), /*attn_bias=*/{},
          saved[kOut], saved[kLogSumExp], saved[kPhiloxSeed], saved[kPhiloxOffset], kNoDropout,
          {true, true, true, false}, kCausal);
      return {dq, summed_heads(dk, k.size(1)), summed_heads(dv, v.size(1))};
    }
  }
  TORCH_CHECK(false, "not an attention kernel");
}

const char* name_of(Kernel kernel) {
  return kernel == Kernel::kCudnn ? "cudnn_attention" : "flash_attention";
}

// Views of the packed product: queries, keys, values as [B, T, heads, W].
struct Heads {
  Heads(const at::Tensor& qkv_NE, int64_t sequence_length, const AttentionHeads& heads)
      : packed(qkv_NE.view({-1, sequence_length, heads.query + 2 * heads.key_value, heads.width})),
        query_key(packed.narrow(2, 0, heads.query + heads.key_value)),
        query(packed.narrow(2, 0, heads.query)),
        key(packed.narrow(2, heads.query, heads.key_value)),
        value(packed.narrow(2, heads.query + heads.key_value, heads.key_value)) {}

  at::Tensor packed;
  at::Tensor query_key;
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
};

// Rotates x [B, T, heads, W] in place.
void rotate(const at::Tensor& x_BTHW, const RotaryTable& table) {
  const int64_t half = x_BTHW.size(-1) / 2;
  const at::Tensor& cosine = table.tensors[0];
  const at::Tensor& sine = table.tensors[1];
  at::Tensor first = x_BTHW.narrow(-1, 0, half);
  at::Tensor second = x_BTHW.narrow(-1, half, half);
  at::Tensor rotated_first = first * cosine;
  rotated_first.addcmul_(second, sine, -1);
  second.mul_(cosine).addcmul_(first, sine);
  first.copy_(rotated_first);
}

// Writes x [B, T, heads, W], rotated back, to `out`; that is also the gradient of rotate.
void rotate_back(const at::Tensor& out_BTHW, const at::Tensor& x_BTHW, const RotaryTable& table) {
  const int64_t half = x_BTHW.size(-1) / 2;
  const at::Tensor& cosine = table.tensors[0];
  const at::Tensor& sine = table.tensors[1];
  at::Tensor both = out_BTHW.unflatten(-1, {2, half});
  at::mul_out(both, x_BTHW.unflatten(-1, {2, half}), cosine.unsqueeze(-2));
  out_BTHW.narrow(-1, 0, half).addcmul_(x_BTHW.narrow(-1, half, half), sine);
  out_BTHW.narrow(-1, half, half).addcmul_(x_BTHW.narrow(-1, 0, half), sine, -1);
}

}  // namespace

// Cosine and sine, [T, 1, width / 2] each, to broadcast over heads.
RotaryTable AtenKernels::rotary_table(const at::Tensor& angles, at::ScalarType buffer_type,
                                      at::ScalarType type) {
  const auto stored = [&](const at::Tensor& table) {
    const bool is_rounded = buffer_type != at::kFloat;
    return (is_rounded ? table.to(buffer_type) : table).to(type).unsqueeze_(1);
  };
  return {angles.size(0), {stored(angles.cos()), stored(angles.sin())}};
}

Kernels::Attention AtenKernels::attention(at::Tensor qkv_NE, const AttentionHeads& heads,
                                          const RotaryTable& table, bool for_backward) {
  const Heads packed(qkv_NE, table.sequence_length, heads);
  rotate(packed.query_key, table);
  const at::Tensor q = packed.query.transpose(1, 2);
  const at::Tensor k = packed.key.transpose(1, 2);
  const at::Tensor v = packed.value.transpose(1, 2);
  const Kernel kernel = choose_kernel(device_, q);
  Tensors saved = launch_operator(
      name_of(kernel), {q, k, v}, [&] { return attend(kernel, q, k, v, for_backward); },
      [&] { return attend_on_meta(kernel, q); });
  const at::Tensor out = saved[kOut].transpose(1, 2).reshape({-1, heads.query * heads.width});
  if (!for_backward) return {out, {}};
  saved[kOut] = qkv_NE;  // which backward reads in the place of what it has as `out`
  return {out, std::move(saved)};
}

at::Tensor AtenKernels::attention_backward(const at::Tensor& dout, Attention forward,
                                           const AttentionHeads& heads, const RotaryTable& table) {
  const auto as_BHTW = [&](const at::Tensor& x) {
    return x.view({-1, table.sequence_length, heads.query, heads.width}).transpose(1, 2);
  };
  const at::Tensor qkv_NE = std::exchange(forward.saved[kOut], as_BHTW(forward.out));
  const Heads packed(qkv_NE, table.sequence_length, heads);
  const at::Tensor q = packed.query.transpose(1, 2);
  const at::Tensor k = packed.key.transpose(1, 2);
  const at::Tensor v = packed.value.transpose(1, 2);
  const Kernel kernel = choose_kernel(device_, q);
  const Tensors gradients = launch_operator(
      name_of(kernel), {dout, q, k, v, forward.out},
      [&] { return attend_backward(kernel, as_BHTW(dout), q, k, v, forward.saved); },
      [&] {
        return Tensors{empty_BHTW(q), empty_BHTW(k), empty_BHTW(v)};
      });
  at::Tensor dqkv_NE = at::empty_like(qkv_NE);
  const Heads d(dqkv_NE, table.sequence_length, heads);
  rotate_back(d.query, gradients[0].transpose(1, 2), table);
  rotate_back(d.key, gradients[1].transpose(1, 2), table);
  d.value.copy_(gradients[2].transpose(1, 2));
  return dqkv_NE;
}

}  // namespace fsdp
