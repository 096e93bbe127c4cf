#ifdef FSDP_CUDA
#include <c10/cuda/CUDAException.h>
#endif

#include "trainer/model/layers.h"
#include "trainer/model/node.h"

// Further shape suffixes: B sequences, T tokens of one, H query heads, K key/value heads, W head
// width.
namespace fsdp {
namespace {

constexpr double kNoDropout = 0.0;

struct Attended {
  at::Tensor out_BHTW;
  at::Tensor log_sum_exp;
  at::Tensor philox_seed;  // CUDA's kernels want their random state back even without dropout
  at::Tensor philox_offset;
};

struct Gradients {
  at::Tensor dq_BHTW;
  at::Tensor dk_BKTW;
  at::Tensor dv_BKTW;
};

at::Tensor empty_BHTW(const at::Tensor& like_BHTW) {
  return at::empty({like_BHTW.size(0), like_BHTW.size(2), like_BHTW.size(1), like_BHTW.size(3)},
                   like_BHTW.options())
      .transpose(1, 2);
}

bool is_ampere_or_later([[maybe_unused]] const at::Device& gpu) {
  int major = 0;
#ifdef FSDP_CUDA
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu.index()));
#endif
  return major >= 8;
}

// CUDA's flash kernel wants 16-bit types, heads of certain widths and an Ampere GPU; its
// memory-efficient one knows no grouped queries.
bool has_cuda_flash(const at::Tensor& q) {
  const int64_t width = q.size(-1);
  return at::isReducedFloatingType(q.scalar_type()) && width % 8 == 0 && width <= 256 &&
         is_ampere_or_later(q.device());
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

Attended attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (q.is_meta()) {
    const at::ScalarType type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    return {empty_BHTW(q),
            at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(type)),
            {},
            {}};
  }
  if (q.is_cpu()) {
    auto [out, log_sum_exp] =
        at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, kNoDropout, /*is_causal=*/true);
    return {out, log_sum_exp, {}, {}};
  }
  if (has_cuda_flash(q)) {
    auto result = at::_scaled_dot_product_flash_attention(q, k, v, kNoDropout, /*is_causal=*/true);
    return {std::get<0>(result), std::get<1>(result), std::get<6>(result), std::get<7>(result)};
  }
  auto [out, log_sum_exp, seed, offset] = at::_scaled_dot_product_efficient_attention(
      q, expanded_heads(k, q.size(1)), expanded_heads(v, q.size(1)), /*attn_bias=*/std::nullopt,
      /*compute_log_sumexp=*/at::GradMode::is_enabled(), kNoDropout, /*is_causal=*/true);
  return {out, log_sum_exp, seed, offset};
}

Gradients attend_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const Attended& attended) {
  const auto& [out, log_sum_exp, seed, offset] = attended;
  if (q.is_meta()) return {empty_BHTW(q), empty_BHTW(k), empty_BHTW(v)};
  if (q.is_cpu()) {
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        dout, q, k, v, out, log_sum_exp, kNoDropout, /*is_causal=*/true);
    return {dq, dk, dv};
  }
  if (has_cuda_flash(q)) {
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_backward(
        dout, q, k, v, out, log_sum_exp, /*cum_seq_q=*/{}, /*cum_seq_k=*/{}, q.size(2), k.size(2),
        kNoDropout, /*is_causal=*/true, seed, offset);
    return {dq, dk, dv};
  }
  auto [dq, dk, dv, unused] = at::_scaled_dot_product_efficient_attention_backward(
      dout, q, expanded_heads(k, q.size(1)), expanded_heads(v, q.size(1)), /*attn_bias=*/{}, out,
      log_sum_exp, seed, offset, kNoDropout, {true, true, true, false}, /*is_causal=*/true);
  return {dq, summed_heads(dk, k.size(1)), summed_heads(dv, k.size(1))};
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

struct CausalAttentionBackward : torch::autograd::Node {
  variable_list apply(variable_list&& gradients) override {
    const ComputeGuard guard;
    const at::Tensor qkv_NE = this->qkv_NE.unpack();
    const Heads packed(qkv_NE, sequence_length, heads);
    Attended forward = attended;
    forward.out_BHTW = as_BHTW(out_NE.unpack(shared_from_this()));
    const Gradients kernel =
        attend_backward(as_BHTW(gradients[0]), packed.query.transpose(1, 2),
                        packed.key.transpose(1, 2), packed.value.transpose(1, 2), forward);
    at::Tensor dqkv_NE = at::empty_like(qkv_NE);
    Heads d(dqkv_NE, sequence_length, heads);
    d.query.copy_(kernel.dq_BHTW.transpose(1, 2));
    d.key.copy_(kernel.dk_BKTW.transpose(1, 2));
    d.value.copy_(kernel.dv_BKTW.transpose(1, 2));
    RotaryEmbedding::rotate(d.query_key, table, /*inverse=*/true);
    return {dqkv_NE};
  }
  void release_variables() override {
    qkv_NE.reset_data();
    out_NE.reset_data();
    attended = {};
  }
  at::Tensor as_BHTW(const at::Tensor& out) const {
    return out.view({-1, sequence_length, heads.query, heads.width}).transpose(1, 2);
  }

  SavedVariable qkv_NE;  // rotated
  SavedVariable out_NE;
  Attended attended;  // without the output, which would keep this node alive
  RotaryEmbedding::Table table;
  int64_t sequence_length = 0;
  AttentionHeads heads;
};

}  // namespace

at::Tensor causal_attention(const at::Tensor& qkv_NE, int64_t sequence_length,
                            const AttentionHeads& heads, RotaryEmbedding& rotary) {
  const RotaryEmbedding::Table table = rotary.table(sequence_length, qkv_NE.options());
  Attended attended;
  at::Tensor out_NE;
  {
    const ComputeGuard guard;
    const Heads packed(qkv_NE, sequence_length, heads);
    RotaryEmbedding::rotate(packed.query_key, table);
    attended = attend(packed.query.transpose(1, 2), packed.key.transpose(1, 2),
                      packed.value.transpose(1, 2));
    out_NE = attended.out_BHTW.transpose(1, 2).reshape({-1, heads.query * heads.width});
    attended.out_BHTW.reset();
  }
  if (auto node = node_for<CausalAttentionBackward>({qkv_NE})) {
    torch::autograd::set_history(out_NE, node);
    node->qkv_NE = SavedVariable(qkv_NE, false);
    node->out_NE = SavedVariable(out_NE, true);
    node->attended = std::move(attended);
    node->table = table;
    node->sequence_length = sequence_length;
    node->heads = heads;
  }
  return out_NE;
}

}  // namespace fsdp
