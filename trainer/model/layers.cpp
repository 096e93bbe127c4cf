#include "trainer/model/layers.h"

namespace fsdp {
namespace {

// Returns residual + x weight^T + bias.
at::Tensor residual_product(Kernels& kernels, const at::Tensor& residual_NO, const at::Tensor& x_ND,
                            const Linear& linear) {
  const at::Tensor y_NO = linear.bias ? residual_NO + linear.bias->value : residual_NO.clone();
  kernels.multiply(y_NO, x_ND, linear.weight->value.t(), /*accumulate=*/true);
  return y_NO;
}

// Returns x weight^T + bias.
at::Tensor product(Kernels& kernels, const at::Tensor& x_ND, const Linear& linear) {
  at::Tensor y_NO = at::empty({x_ND.size(0), linear.weight->shape().front()}, x_ND.options());
  if (linear.bias) y_NO.copy_(linear.bias->value.expand_as(y_NO));
  kernels.multiply(y_NO, x_ND, linear.weight->value.t(), /*accumulate=*/linear.bias != nullptr);
  return y_NO;
}

// Writes the gradients of weight and bias.
void write_gradients(Kernels& kernels, const at::Tensor& dy_NO, const at::Tensor& x_ND,
                     const Linear& linear) {
  kernels.multiply_gradient(linear.weight->gradient, dy_NO.t(), x_ND);
  if (!linear.bias) return;
  GradientBuffer& gradient = linear.bias->gradient;
  gradient.add(dy_NO.sum(0, /*keepdim=*/false, gradient.tensor.scalar_type()));
}

// Norms consecutive heads of the packed product in place. R: rows, one for each head of each token.
class NormedHeads {
 public:
  NormedHeads(Kernels& kernels, const at::Tensor& qkv_NE, int64_t first, int64_t count,
              const ParameterPtr& weight_W, double epsilon)
      : first_(first), count_(count), weight_W_(weight_W) {
    x_RW_ = copied_rows(qkv_NE);
    auto [y_RW, reciprocal_rms_R1] = kernels.rms_norm(x_RW_, weight_W->value, epsilon);
    reciprocal_rms_R1_ = reciprocal_rms_R1;
    heads_of(qkv_NE).copy_(y_RW.view({qkv_NE.size(0), count, -1}));
  }

  // Replaces the gradient of the normed heads by the gradient of the heads.
  void run_backward(Kernels& kernels, const at::Tensor& dqkv_NE) const {
    GradientBuffer dx_RW;
    kernels.rms_norm_backward(copied_rows(dqkv_NE), x_RW_, reciprocal_rms_R1_, weight_W_->value,
                              weight_W_->gradient, dx_RW);
    heads_of(dqkv_NE).copy_(dx_RW.take().view({dqkv_NE.size(0), count_, -1}));
  }

 private:
  at::Tensor heads_of(const at::Tensor& packed_NE) const {
    const int64_t width = weight_W_->shape().front();
    return packed_NE.view({packed_NE.size(0), -1, width}).narrow(1, first_, count_);
  }
  at::Tensor copied_rows(const at::Tensor& packed_NE) const {
    return heads_of(packed_NE).clone(at::MemoryFormat::Contiguous).flatten(0, 1);
  }

  int64_t first_;
  int64_t count_;
  ParameterPtr weight_W_;
  at::Tensor x_RW_;
  at::Tensor reciprocal_rms_R1_;
};

}  // namespace

Activation embedding(Pass& pass, const at::Tensor& token_ids_N, const ParameterPtr& weight,
                     std::optional<int64_t> padding_idx) {
  Kernels& kernels = pass.kernels;
  return pass.tape.record(kernels.embedding(weight->value, token_ids_N),
                          [&kernels, token_ids_N, weight, padding_idx](const at::Tensor& dy_ND) {
                            if (padding_idx) {
                              dy_ND.masked_fill_(token_ids_N.eq(*padding_idx).unsqueeze(1), 0);
                            }
                            kernels.embedding_backward(dy_ND, token_ids_N, weight->gradient);
                          });
}

Activation residual_linear(Pass& pass, const Activation& residual_NO, const Activation& x_ND,
                           const Linear& linear) {
  Kernels& kernels = pass.kernels;
  const at::Tensor y_NO = residual_product(kernels, residual_NO.value, x_ND.value, linear);
  return pass.tape.record(y_NO, [&kernels, residual = residual_NO.gradient, x_ND = x_ND.saved(),
                                 linear](const at::Tensor& dy_NO) {
    const at::Tensor value_ND = x_ND.saved_value();
    write_gradients(kernels, dy_NO, value_ND, linear);
    const at::Tensor dx_ND = at::empty_like(value_ND);
    kernels.multiply(dx_ND, dy_NO, linear.weight->value);
    x_ND.gradient->add(dx_ND);
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
                           double epsilon, const Linear& linear) {
  Kernels& kernels = pass.kernels;
  auto [norm_ND, reciprocal_rms_N1] = kernels.rms_norm(x_ND.value, norm_weight_D->value, epsilon);
  const at::Tensor y_NO = product(kernels, norm_ND, linear);
  return pass.tape.record(y_NO, [&kernels, x_ND = x_ND.saved(), reciprocal_rms_N1, norm_weight_D,
                                 epsilon, linear](at::Tensor dy_NO) {
    const at::Tensor value_ND = x_ND.saved_value();
    at::Tensor buffer_ND =
        kernels.rms_norm_again(value_ND, reciprocal_rms_N1, norm_weight_D->value, epsilon);
    write_gradients(kernels, dy_NO, buffer_ND, linear);
    kernels.multiply(buffer_ND, dy_NO, linear.weight->value);
    dy_NO.reset();
    kernels.rms_norm_backward(std::move(buffer_ND), value_ND, reciprocal_rms_N1,
                              norm_weight_D->value, norm_weight_D->gradient, *x_ND.gradient);
  });
}

Activation linear(Pass& pass, const Activation& x_ND, const Linear& linear) {
  Kernels& kernels = pass.kernels;
  return pass.tape.record(product(kernels, x_ND.value, linear),
                          [&kernels, x_ND = x_ND.saved(), linear](const at::Tensor& dy_NO) {
                            const at::Tensor value_ND = x_ND.saved_value();
                            write_gradients(kernels, dy_NO, value_ND, linear);
                            const at::Tensor dx_ND = at::empty_like(value_ND);
                            kernels.multiply(dx_ND, dy_NO, linear.weight->value);
                            x_ND.gradient->add(dx_ND);
                          });
}

Activation add(Pass& pass, const Activation& residual_ND, const Activation& x_ND) {
  return pass.tape.record(
      residual_ND.value + x_ND.value,
      [residual = residual_ND.gradient, x = x_ND.gradient](const at::Tensor& dy_ND) {
        x->add(dy_ND.clone());
        residual->add(dy_ND);
      });
}

Activation dropout(Pass& pass, const Activation& x_ND, const Dropout& dropout) {
  if (dropout.probability == 0 || !pass.tape.wants_gradients()) return x_ND;
  Kernels& kernels = pass.kernels;
  return pass.tape.record(kernels.dropped(x_ND.value, dropout),
                          [&kernels, x = x_ND.gradient, dropout](const at::Tensor& dy_ND) {
                            x->add(kernels.dropped(dy_ND, dropout));
                          });
}

Activation head_norms(Pass& pass, Activation qkv_NE, const AttentionHeads& heads,
                      const ParameterPtr& query_weight_W, const ParameterPtr& key_weight_W,
                      double epsilon) {
  Kernels& kernels = pass.kernels;
  const NormedHeads query(kernels, qkv_NE.value, 0, heads.query, query_weight_W, epsilon);
  const NormedHeads key(kernels, qkv_NE.value, heads.query, heads.key_value, key_weight_W, epsilon);
  return pass.tape.record(qkv_NE.value,
                          [&kernels, qkv = qkv_NE.gradient, query, key](const at::Tensor& dqkv_NE) {
                            query.run_backward(kernels, dqkv_NE);
                            key.run_backward(kernels, dqkv_NE);
                            qkv->add(dqkv_NE);
                          });
}

Activation causal_attention(Pass& pass, Activation qkv_NE, int64_t sequence_length,
                            const AttentionHeads& heads, RotaryEmbedding& rotary) {
  Kernels& kernels = pass.kernels;
  const bool has_window = heads.window > 0 && heads.window < sequence_length;
  const DocumentsPtr documents =
      pass.batch.documents || !has_window
          ? pass.batch.documents
          : rotary.as_documents(qkv_NE.value.size(0), sequence_length, qkv_NE.value.device());
  TORCH_CHECK(!documents || documents->token_count() == qkv_NE.value.size(0), "the documents have ",
              documents->token_count(), " tokens, but the batch has ", qkv_NE.value.size(0));
  const RotaryTable table = rotary.table(kernels, sequence_length, documents,
                                         qkv_NE.value.options(), pass.batch.lengths_vary);
  Kernels::Attention attention =
      kernels.attention(std::move(qkv_NE.value), heads, table, pass.tape.is_recording());
  const at::Tensor out = attention.out;
  return pass.tape.record(out, [&kernels, qkv = qkv_NE.gradient, attention = std::move(attention),
                                heads, table](const at::Tensor& dout) mutable {
    qkv->add(kernels.attention_backward(dout, std::move(attention), heads, table));
  });
}

Activation residual_swiglu_linear(Pass& pass, const Activation& residual_ND,
                                  const Activation& gate_up_N2F, const Linear& linear) {
  Kernels& kernels = pass.kernels;
  const at::Tensor h_NF = kernels.swiglu(gate_up_N2F.value);
  const at::Tensor y_ND = residual_product(kernels, residual_ND.value, h_NF, linear);
  return pass.tape.record(
      y_ND, [&kernels, residual = residual_ND.gradient, gate_up_N2F = gate_up_N2F.saved(),
             linear](const at::Tensor& dy_ND) {
        const at::Tensor value_N2F = gate_up_N2F.saved_value();
        at::Tensor dh_NF = at::empty({dy_ND.size(0), value_N2F.size(1) / 2}, dy_ND.options());
        kernels.multiply(dh_NF, dy_ND, linear.weight->value);
        auto [again_NF, d_gate_up_N2F] = kernels.swiglu_backward(std::move(dh_NF), value_N2F);
        write_gradients(kernels, dy_ND, again_NF, linear);
        gate_up_N2F.gradient->add(d_gate_up_N2F);
        residual->add(dy_ND);
      });
}

}  // namespace fsdp
