// Calls Transformer Engine for shapes and types that it supports, and else libtorch.
#include "trainer/kernels/transformer_engine_kernels.h"

#include <ATen/ATen.h>

#include "trainer/kernels/transformer_engine.h"

namespace fsdp {
namespace {

bool has_kernels(at::ScalarType type) {
  return type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
}

bool has_rms_norm(const at::Tensor& x_ND, const at::Tensor& weight_D) {
  return has_kernels(x_ND.scalar_type()) && x_ND.scalar_type() == weight_D.scalar_type();
}

// True for a table of angles. The ATen set's table has two tensors.
bool is_of_angles(const RotaryTable& table) { return table.tensors.size() == 1; }

// The shapes of the tensors of an attention call, with one row per sequence. All documents together
// are one sequence.
struct AttentionShapes {
  AttentionShapes(const at::Tensor& packed, const AttentionHeads& heads, const RotaryTable& table)
      : sequences(packed.size(0) / table.sequence_length),
        query{sequences, table.sequence_length, heads.query, heads.width},
        key_value{sequences, table.sequence_length, heads.key_value, heads.width},
        log_sum_exp(te::log_sum_exp_shape(query, table.documents.get())) {}

  int64_t sequences;
  std::vector<int64_t> query;
  std::vector<int64_t> key_value;
  std::vector<int64_t> log_sum_exp;
};

}  // namespace

Kernels::RmsNorm TransformerEngineKernels::rms_norm(const at::Tensor& x_ND,
                                                    const at::Tensor& weight_D, double epsilon) {
  if (!has_rms_norm(x_ND, weight_D)) return AtenKernels::rms_norm(x_ND, weight_D, epsilon);
  RmsNorm norm = {at::empty(x_ND.sizes(), x_ND.options()),
                  at::empty({x_ND.size(0)}, x_ND.options().dtype(at::kFloat))};
  te::rms_norm(x_ND, weight_D, epsilon, norm.y_ND, norm.reciprocal_rms_N1);
  return norm;
}

// Computes the root mean square again: no kernel takes a given one, and computing it does not read
// x more often.
at::Tensor TransformerEngineKernels::rms_norm_again(const at::Tensor& x_ND,
                                                    const at::Tensor& reciprocal_rms_N1,
                                                    const at::Tensor& weight_D, double epsilon) {
  if (!has_rms_norm(x_ND, weight_D)) {
    return AtenKernels::rms_norm_again(x_ND, reciprocal_rms_N1, weight_D, epsilon);
  }
  return rms_norm(x_ND, weight_D, epsilon).y_ND;
}

void TransformerEngineKernels::rms_norm_backward(at::Tensor dy_ND, const at::Tensor& x_ND,
                                                 const at::Tensor& reciprocal_rms_N1,
                                                 const at::Tensor& weight_D,
                                                 GradientBuffer* dweight_D, GradientBuffer& dx_ND) {
  if (!has_rms_norm(x_ND, weight_D)) {
    AtenKernels::rms_norm_backward(std::move(dy_ND), x_ND, reciprocal_rms_N1, weight_D, dweight_D,
                                   dx_ND);
    return;
  }
  if (!dx_ND.tensor.defined()) dx_ND.tensor = dy_ND;
  const at::Tensor residual_ND = dx_ND.is_written ? dx_ND.tensor : at::Tensor();
  const bool is_direct = dweight_D && !dweight_D->is_written &&
                         dweight_D->tensor.scalar_type() == weight_D.scalar_type();
  const at::Tensor gradient_D =
      is_direct ? dweight_D->tensor : at::empty(weight_D.sizes(), weight_D.options());
  te::rms_norm_backward(dy_ND, x_ND, reciprocal_rms_N1, weight_D, residual_ND, dx_ND.tensor,
                        gradient_D);
  dx_ND.is_written = true;
  if (!dweight_D) return;
  if (dweight_D->is_written) {
    dweight_D->tensor.add_(gradient_D);
  } else if (!is_direct) {
    dweight_D->tensor.copy_(gradient_D);
  }
  dweight_D->is_written = true;
}

at::Tensor TransformerEngineKernels::swiglu(const at::Tensor& gate_up_N2F) {
  if (!has_kernels(gate_up_N2F.scalar_type())) return AtenKernels::swiglu(gate_up_N2F);
  const at::Tensor h_NF =
      at::empty({gate_up_N2F.size(0), gate_up_N2F.size(1) / 2}, gate_up_N2F.options());
  te::swiglu(gate_up_N2F, h_NF);
  return h_NF;
}

Kernels::SwigluGradients TransformerEngineKernels::swiglu_backward(at::Tensor dh_NF,
                                                                   const at::Tensor& gate_up_N2F) {
  if (kHasCudaKernels || !has_kernels(gate_up_N2F.scalar_type())) {
    return AtenKernels::swiglu_backward(std::move(dh_NF), gate_up_N2F);
  }
  const at::Tensor d_gate_up_N2F = at::empty(gate_up_N2F.sizes(), gate_up_N2F.options());
  te::swiglu_backward(dh_NF, gate_up_N2F, d_gate_up_N2F);
  te::swiglu(gate_up_N2F, dh_NF);
  return {std::move(dh_NF), d_gate_up_N2F};
}

RotaryTable TransformerEngineKernels::rotary_table(const at::Tensor& angles,
                                                   const DocumentsPtr& documents,
                                                   at::ScalarType buffer_type, at::ScalarType type,
                                                   bool lengths_vary) {
  const int64_t sequence_length = angles.size(0);
  const int64_t width = 2 * angles.size(1);
  if (buffer_type != at::kFloat || lengths_vary ||
      !te::has_causal_attention(type, sequence_length, width, documents.get(), angles.device(),
                                capability_major())) {
    return AtenKernels::rotary_table(angles, documents, buffer_type, type, lengths_vary);
  }
  return {sequence_length, documents, {at::cat({angles, angles}, 1)}};
}

Kernels::Attention TransformerEngineKernels::attention(at::Tensor qkv_NE,
                                                       const AttentionHeads& heads,
                                                       const RotaryTable& table,
                                                       bool for_backward) {
  if (!is_of_angles(table)) {
    return AtenKernels::attention(std::move(qkv_NE), heads, table, for_backward);
  }
  const AttentionShapes shape(qkv_NE, heads, table);
  const at::TensorOptions options = qkv_NE.options();
  const at::Tensor q = at::empty(shape.query, options);
  const at::Tensor k = at::empty(shape.key_value, options);
  const at::Tensor v = at::empty(shape.key_value, options);
  te::split_and_rotate(qkv_NE, table.tensors[0], q, k, v);
  const int64_t tokens = qkv_NE.size(0);
  qkv_NE.reset();

  Attention attention = {at::empty({tokens, heads.query * heads.width}, options), {}};
  const at::Tensor log_sum_exp = at::empty(shape.log_sum_exp, options.dtype(at::kFloat));
  te::causal_attention(q, k, v, attention.out.view(shape.query), log_sum_exp, table.documents.get(),
                       heads.window, for_backward);
  if (for_backward) attention.saved = {q, k, v, log_sum_exp};
  return attention;
}

at::Tensor TransformerEngineKernels::attention_backward(const at::Tensor& dout, Attention forward,
                                                        const AttentionHeads& heads,
                                                        const RotaryTable& table) {
  if (!is_of_angles(table)) {
    return AtenKernels::attention_backward(dout, std::move(forward), heads, table);
  }
  const AttentionShapes shape(dout, heads, table);
  const at::TensorOptions options = dout.options();
  const at::Tensor dq = at::empty(shape.query, options);
  const at::Tensor dk = at::empty(shape.key_value, options);
  const at::Tensor dv = at::empty(shape.key_value, options);
  const std::vector<at::Tensor>& saved = forward.saved;
  te::causal_attention_backward(dout.view(shape.query), forward.out.view(shape.query), saved[0],
                                saved[1], saved[2], saved[3], dq, dk, dv, table.documents.get(),
                                heads.window);
  forward = {};

  const at::Tensor dqkv_NE =
      at::empty({dout.size(0), (heads.query + 2 * heads.key_value) * heads.width}, options);
  te::join_and_rotate_back(dq, dk, dv, table.tensors[0], dqkv_NE);
  return dqkv_NE;
}

}  // namespace fsdp
