#include "trainer/model/layers.h"

namespace fsdp {
namespace {

// x weight^T + what `out` holds.
void add_product(Kernels& kernels, const at::Tensor& out, const at::Tensor& x,
                 const Parameter& weight) {
  kernels.multiply(out, x, weight.value.t(), /*accumulate=*/true);
}

// The gradient of x of y = x weight^T; that of the weight is written.
at::Tensor product_backward(Kernels& kernels, const at::Tensor& dy, const at::Tensor& x,
                            Parameter& weight) {
  kernels.multiply_gradient(weight.gradient, dy.t(), x);
  at::Tensor dx = at::empty_like(x);
  kernels.multiply(dx, dy, weight.value);
  return dx;
}

}  // namespace

Activation embedding(Pass& pass, const at::Tensor& token_ids_N, const ParameterPtr& weight) {
  Kernels& kernels = pass.kernels;
  return pass.tape.record(kernels.embedding(weight->value, token_ids_N),
                          [&kernels, token_ids_N, weight](const at::Tensor& dy_ND) {
                            kernels.embedding_backward(dy_ND, token_ids_N, weight->gradient);
                          });
}

Activation residual_linear(Pass& pass, const Activation& residual_NO, const Activation& x_ND,
                           const ParameterPtr& weight_OD) {
  Kernels& kernels = pass.kernels;
  const at::Tensor y_NO = residual_NO.value.clone();
  add_product(kernels, y_NO, x_ND.value, *weight_OD);
  return pass.tape.record(y_NO, [&kernels, residual = residual_NO.gradient, x_ND = x_ND.saved(),
                                 weight_OD](const at::Tensor& dy_NO) {
    x_ND.gradient->add(product_backward(kernels, dy_NO, x_ND.saved_value(), *weight_OD));
    residual->add(dy_NO);
  });
}

Activation rms_norm(Pass& pass, const Activation& x_ND, const ParameterPtr& weight_D,
                    double epsilon) {
  Kernels& kernels = pass.kernels;
  auto [y_ND, reciprocal_rms_N1] = kernels.rms_norm(x_ND.value, weight_D->value, epsilon);
  return pass.tape.record(std::move(y_ND), [&kernels, x_ND = x_ND.saved(), reciprocal_rms_N1,
                                            weight_D](at::Tensor dy_ND) {
    kernels.rms_norm_backward(std::move(dy_ND), x_ND.saved_value(), reciprocal_rms_N1,
                              weight_D->value, weight_D->gradient, *x_ND.gradient);
  });
}

Activation rms_norm_linear(Pass& pass, const Activation& x_ND, const ParameterPtr& norm_weight_D,
                           double epsilon, const ParameterPtr& weight_OD) {
  Kernels& kernels = pass.kernels;
  auto [norm_ND, reciprocal_rms_N1] = kernels.rms_norm(x_ND.value, norm_weight_D->value, epsilon);
  const at::Tensor y_NO =
      at::empty({norm_ND.size(0), weight_OD->shape().front()}, norm_ND.options());
  kernels.multiply(y_NO, norm_ND, weight_OD->value.t());
  return pass.tape.record(y_NO, [&kernels, x_ND = x_ND.saved(), reciprocal_rms_N1, norm_weight_D,
                                 epsilon, weight_OD](at::Tensor dy_NO) {
    const at::Tensor value_ND = x_ND.saved_value();
    at::Tensor buffer_ND =
        kernels.rms_norm_again(value_ND, reciprocal_rms_N1, norm_weight_D->value, epsilon);
    kernels.multiply_gradient(weight_OD->gradient, dy_NO.t(), buffer_ND);
    kernels.multiply(buffer_ND, dy_NO, weight_OD->value);
    dy_NO.reset();
    kernels.rms_norm_backward(std::move(buffer_ND), value_ND, reciprocal_rms_N1,
                              norm_weight_D->value, norm_weight_D->gradient, *x_ND.gradient);
  });
}

Activation causal_attention(Pass& pass, Activation qkv_NE, int64_t sequence_length,
                            const AttentionHeads& heads, RotaryEmbedding& rotary) {
  Kernels& kernels = pass.kernels;
  const DocumentsPtr& documents = pass.batch.documents;
  TORCH_CHECK(!documents || documents->token_count() == qkv_NE.value.size(0), "the documents have ",
              documents->token_count(), " tokens, but the batch has ", qkv_NE.value.size(0));
  const RotaryTable table =
      rotary.table(kernels, sequence_length, documents, qkv_NE.value.options());
  Kernels::Attention attention =
      kernels.attention(std::move(qkv_NE.value), heads, table, pass.tape.is_recording());
  const at::Tensor out = attention.out;
  return pass.tape.record(out, [&kernels, qkv = qkv_NE.gradient, attention = std::move(attention),
                                heads, table](const at::Tensor& dout) mutable {
    qkv->add(kernels.attention_backward(dout, std::move(attention), heads, table));
  });
}

Activation residual_swiglu_linear(Pass& pass, const Activation& residual_ND,
                                  const Activation& gate_up_N2F, const ParameterPtr& weight_DF) {
  Kernels& kernels = pass.kernels;
  const at::Tensor h_NF = kernels.swiglu(gate_up_N2F.value);
  const at::Tensor y_ND = residual_ND.value.clone();
  add_product(kernels, y_ND, h_NF, *weight_DF);
  return pass.tape.record(
      y_ND, [&kernels, residual = residual_ND.gradient, gate_up_N2F = gate_up_N2F.saved(),
             weight_DF](const at::Tensor& dy_ND) {
        const at::Tensor value_N2F = gate_up_N2F.saved_value();
        at::Tensor dh_NF = at::empty({dy_ND.size(0), value_N2F.size(1) / 2}, dy_ND.options());
        kernels.multiply(dh_NF, dy_ND, weight_DF->value);
        auto [again_NF, d_gate_up_N2F] = kernels.swiglu_backward(std::move(dh_NF), value_N2F);
        kernels.multiply_gradient(weight_DF->gradient, dy_ND.t(), again_NF);
        gate_up_N2F.gradient->add(d_gate_up_N2F);
        residual->add(dy_ND);
      });
}

}  // namespace fsdp
