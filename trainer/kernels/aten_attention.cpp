// Computes causal attention by libtorch's kernels, after the rotary embedding.
#include "trainer/kernels/aten_kernels.h"
#include "trainer/kernels/attention_operators.h"
#include "trainer/kernels/own_kernels.h"

// Further shape suffixes: B sequences, T tokens of a sequence, H query heads, W head width.
namespace fsdp {
namespace {

// Views of packed queries, keys and values [B, T, heads, W]; each has the same dimensions.
struct Heads {
  Heads(const at::Tensor& packed_BTHW, const AttentionHeads& heads)
      : query_key(packed_BTHW.narrow(2, 0, heads.query + heads.key_value)),
        query(packed_BTHW.narrow(2, 0, heads.query)),
        key(packed_BTHW.narrow(2, heads.query, heads.key_value)),
        value(packed_BTHW.narrow(2, heads.query + heads.key_value, heads.key_value)) {}

  at::Tensor query_key;
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
};

// Returns a packed query-key-value product [N, E] as [B, T, heads, W].
at::Tensor packed_heads(const at::Tensor& qkv_NE, int64_t sequence_length,
                        const AttentionHeads& heads) {
  return qkv_NE.view({-1, sequence_length, heads.query + 2 * heads.key_value, heads.width});
}

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

bool AtenKernels::has_attention(at::ScalarType dtype) const {
  return device_ != at::kCUDA || capability_major_ >= kAmpere || dtype != at::kBFloat16;
}

// libtorch's kernels for GPUs read 16 bytes at a time. For other widths it reports only when it
// runs that there is none: "cutlassF: no kernel found to launch!". On 8.6, 8.9 and 12.x, the
// backward of flash attention has no kernel for widths from 193 to 224.
int64_t AtenKernels::padded_width(int64_t width, at::ScalarType dtype) const {
  constexpr int64_t kAlignmentBytes = 16;
  if (device_ != at::kCUDA) return width;
  if (at::isReducedFloatingType(dtype) && width > 192 && width <= 224) return 256;
  const int64_t alignment = kAlignmentBytes / static_cast<int64_t>(c10::elementSize(dtype));
  return (width + alignment - 1) / alignment * alignment;
}

Kernels::Attention AtenKernels::attention(at::Tensor qkv_NE, const AttentionHeads& heads,
                                          const RotaryTable& table, bool for_backward) {
  const at::Tensor packed_BTHW = packed_heads(qkv_NE, table.sequence_length, heads);
  if (has_own_kernels(qkv_NE)) {
    own::rotate(packed_BTHW, heads.query, table.tensors[0], table.tensors[1]);
  } else {
    rotate(Heads(packed_BTHW, heads).query_key, table);
  }
  const Heads padded(padded_heads(packed_BTHW, padded_width(heads.width, qkv_NE.scalar_type())),
                     heads);
  const at::Tensor q = padded.query.transpose(1, 2);
  const at::Tensor k = padded.key.transpose(1, 2);
  const at::Tensor v = padded.value.transpose(1, 2);
  const Within within(table, heads);
  const AttentionKernel kernel = choose_attention(device_, capability_major_, q, within);
  Tensors saved = launch_operator(
      name_of(kernel), {q, k, v}, [&] { return attend(kernel, q, k, v, within, for_backward); },
      [&] { return empty_outputs(kernel, q, k, v, within.documents, for_backward); });
  const at::Tensor out = saved[kOut]
                             .transpose(1, 2)
                             .narrow(-1, 0, heads.width)
                             .reshape({-1, heads.query * heads.width});
  if (!for_backward) return {out, {}};
  saved[kOut] = qkv_NE;  // backward reads qkv_NE, and gets `out` separately
  return {out, std::move(saved)};
}

at::Tensor AtenKernels::attention_backward(const at::Tensor& dout, Attention forward,
                                           const AttentionHeads& heads, const RotaryTable& table) {
  const int64_t width = padded_width(heads.width, dout.scalar_type());
  const auto as_BHTW = [&](const at::Tensor& x) {
    const at::Tensor x_BTHW = x.view({-1, table.sequence_length, heads.query, heads.width});
    return padded_heads(x_BTHW, width).transpose(1, 2);
  };
  const at::Tensor qkv_NE = std::exchange(forward.saved[kOut], as_BHTW(forward.out));
  const Heads padded(padded_heads(packed_heads(qkv_NE, table.sequence_length, heads), width),
                     heads);
  const at::Tensor q = padded.query.transpose(1, 2);
  const at::Tensor k = padded.key.transpose(1, 2);
  const at::Tensor v = padded.value.transpose(1, 2);
  const at::Tensor dout_BHTW = as_BHTW(dout);
  const Within within(table, heads);
  const AttentionKernel kernel = choose_attention(device_, capability_major_, q, within);
  const Tensors gradients = launch_operator(
      name_of(kernel), {dout_BHTW, q, k, v, forward.saved[kOut]},
      [&] { return attend_backward(kernel, dout_BHTW, q, k, v, forward.saved, within); },
      [&] { return empty_gradients(kernel, q, k, v, within.documents); });
  const auto unpadded_BTHW = [&](const at::Tensor& gradient_BHTW) {
    return gradient_BHTW.transpose(1, 2).narrow(-1, 0, heads.width);
  };
  at::Tensor dqkv_NE = at::empty_like(qkv_NE);
  const at::Tensor packed_BTHW = packed_heads(dqkv_NE, table.sequence_length, heads);
  const at::Tensor dq = unpadded_BTHW(gradients[0]);
  const at::Tensor dk = unpadded_BTHW(gradients[1]);
  const at::Tensor dv = unpadded_BTHW(gradients[2]);
  if (has_own_kernels(dqkv_NE)) {
    own::rotate_back(packed_BTHW, dq, dk, dv, table.tensors[0], table.tensors[1]);
    return dqkv_NE;
  }
  const Heads d(packed_BTHW, heads);
  rotate_back(d.query, dq, table);
  rotate_back(d.key, dk, table);
  d.value.copy_(dv);
  return dqkv_NE;
}

}  // namespace fsdp
