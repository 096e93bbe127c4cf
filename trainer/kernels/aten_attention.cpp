#include "trainer/kernels/aten_kernels.h"
#include "trainer/kernels/attention_operators.h"

// Further shape suffixes: B sequences, T tokens of a sequence, H query heads, W head width.
namespace fsdp {
namespace {

// Views of a packed query-key-value product [N, E]; each is [B, T, heads, W].
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

// Writes x [B, T, heads, W], rotated back, to `out`. This is also the gradient of rotate.
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

// The tensors are the cosine and the sine, [T, 1, width / 2] each, which broadcast over heads. With
// documents, T is N.
RotaryTable AtenKernels::rotary_table(const at::Tensor& angles, const DocumentsPtr& documents,
                                      at::ScalarType buffer_type, at::ScalarType type,
                                      bool lengths_vary) {
  const auto stored = [&](const at::Tensor& table) {
    const bool is_rounded = buffer_type != at::kFloat;
    return (is_rounded ? table.to(buffer_type) : table).to(type).unsqueeze_(1);
  };
  return {angles.size(0), documents, {stored(angles.cos()), stored(angles.sin())}, lengths_vary};
}

// libtorch reports a missing kernel only when it runs: "cutlassF: no kernel found to launch!".
bool AtenKernels::has_attention(at::ScalarType dtype, int64_t head_width) const {
  if (device_ != at::kCUDA) return true;
  constexpr int64_t kAlignmentBytes = 16;
  if (capability_major_ < kAmpere) return dtype != at::kBFloat16;
  return head_width * static_cast<int64_t>(c10::elementSize(dtype)) % kAlignmentBytes == 0;
}

Kernels::Attention AtenKernels::attention(at::Tensor qkv_NE, const AttentionHeads& heads,
                                          const RotaryTable& table, bool for_backward) {
  const Heads packed(qkv_NE, table.sequence_length, heads);
  rotate(packed.query_key, table);
  const at::Tensor q = packed.query.transpose(1, 2);
  const at::Tensor k = packed.key.transpose(1, 2);
  const at::Tensor v = packed.value.transpose(1, 2);
  const Within within(table, heads);
  const AttentionKernel kernel = choose_attention(device_, capability_major_, q, within);
  Tensors saved = launch_operator(
      name_of(kernel), {q, k, v}, [&] { return attend(kernel, q, k, v, within, for_backward); },
      [&] { return empty_outputs(kernel, q, k, v, within.documents, for_backward); });
  const at::Tensor out = saved[kOut].transpose(1, 2).reshape({-1, heads.query * heads.width});
  if (!for_backward) return {out, {}};
  saved[kOut] = qkv_NE;  // backward reads qkv_NE, and gets `out` separately
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
  const Within within(table, heads);
  const AttentionKernel kernel = choose_attention(device_, capability_major_, q, within);
  const Tensors gradients = launch_operator(
      name_of(kernel), {dout, q, k, v, forward.out},
      [&] { return attend_backward(kernel, as_BHTW(dout), q, k, v, forward.saved, within); },
      [&] { return empty_gradients(kernel, q, k, v, within.documents); });
  at::Tensor dqkv_NE = at::empty_like(qkv_NE);
  const Heads d(dqkv_NE, table.sequence_length, heads);
  rotate_back(d.query, gradients[0].transpose(1, 2), table);
  rotate_back(d.key, gradients[1].transpose(1, 2), table);
  d.value.copy_(gradients[2].transpose(1, 2));
  return dqkv_NE;
}

}  // namespace fsdp
