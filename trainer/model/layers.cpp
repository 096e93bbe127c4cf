// The layers of transformers, each with its backward. A frozen parameter costs no gradient.
#include "trainer/model/layers.h"

#include "trainer/kernels/nf4_layout.h"
#include "trainer/kernels/work.h"
#include "trainer/memory/memory_label.h"
#include "trainer/model/splitmix64.h"

// Shape suffix: R, the ranks of all parts of an adapter together.
namespace fsdp {
namespace {

// True if a layer with this input has a backward.
bool is_differentiated(const Activation& x, const Linear& linear) {
  return x.needs_gradient() || linear.is_trained();
}

// Returns the weight's values [O, D], dequantized in new memory if it is quantized.
at::Tensor value_of(Kernels& kernels, const Parameter& weight, at::ScalarType dtype) {
  if (!weight.is_quantized()) return weight.value;
  const MemoryScope scope(MemoryUse::kWhole);
  const at::Tensor whole_OD = at::empty(weight.shape(), weight.value.options().dtype(dtype));
  int64_t first_byte = 0;
  int64_t first_row = 0;
  for (const NamedTensor& tensor : weight.tensors()) {
    const at::Tensor rows = whole_OD.narrow(0, first_row, tensor.shape[0]);
    const int64_t bytes = Nf4Layout{rows.numel()}.bytes();
    kernels.dequantize_nf4(weight.value.narrow(0, first_byte, bytes), rows);
    first_byte += bytes;
    first_row += tensor.shape[0];
  }
  return whole_OD;
}

// The tensors that an adapter keeps for its backward.
struct AdapterSaved {
  at::Tensor u_NR;  // A x; undefined: no adapter
  Dropout dropout{};
};

at::Tensor adapter_input(Kernels& kernels, const at::Tensor& x_ND, const Dropout& dropout) {
  return dropout.probability > 0 ? kernels.dropped(x_ND, dropout) : x_ND;
}

// Adds scale * B A x to y, if y is wanted.
AdapterSaved add_adapter(Pass& pass, const at::Tensor& y_NO, const at::Tensor& x_ND,
                         const Linear& linear) {
  if (!linear.adapter) return {};
  const Adapter& adapter = *linear.adapter;
  AdapterSaved saved;
  if (pass.tape.wants_gradients()) {
    saved.dropout = {adapter.dropout, splitmix64(pass.batch.seed, adapter.dropout_key)};
  }
  const at::Tensor& a_RD = adapter.a_RD->value;
  saved.u_NR = at::empty({x_ND.size(0), a_RD.size(0)}, x_ND.options());
  pass.kernels.multiply(saved.u_NR, adapter_input(pass.kernels, x_ND, saved.dropout), a_RD.t());
  if (!pass.wants_value()) return saved;
  for (const Adapter::Part& part : adapter.parts) {
    pass.kernels.multiply(part.of_product(y_NO), part.of_u(saved.u_NR),
                          part.of_b(adapter.b_OR->value).t(), /*accumulate=*/true, adapter.scale);
  }
  return saved;
}

// Writes the gradient of B. Returns the gradient of u; undefined without an adapter.
at::Tensor write_b_gradient(Kernels& kernels, const at::Tensor& dy_NO, const Linear& linear,
                            const AdapterSaved& saved) {
  if (!linear.adapter) return {};
  const Adapter& adapter = *linear.adapter;
  const at::Tensor du_NR = at::empty_like(saved.u_NR);
  GradientBuffer& db_OR = adapter.b_OR->gradient;
  for (const Adapter::Part& part : adapter.parts) {
    const at::Tensor dy_part = part.of_product(dy_NO);
    GradientBuffer db_part{.tensor = part.of_b(db_OR.tensor), .is_written = db_OR.is_written};
    kernels.multiply_gradient(db_part, dy_part.t(), part.of_u(saved.u_NR), adapter.scale);
    kernels.multiply(part.of_u(du_NR), dy_part, part.of_b(adapter.b_OR->value),
                     /*accumulate=*/false, adapter.scale);
  }
  db_OR.is_written = true;
  return du_NR;
}

// Writes the gradients of weight, bias and A, as far as they are trained.
void write_gradients(Kernels& kernels, const at::Tensor& dy_NO, const at::Tensor& x_ND,
                     const Linear& linear, const AdapterSaved& saved, const at::Tensor& du_NR) {
  if (linear.weight->is_trained()) {
    kernels.multiply_gradient(linear.weight->gradient, dy_NO.t(), x_ND);
  }
  if (linear.bias && linear.bias->is_trained()) {
    GradientBuffer& gradient = linear.bias->gradient;
    gradient.add(dy_NO.sum(0, /*keepdim=*/false, gradient.tensor.scalar_type()));
  }
  if (!linear.adapter) return;
  kernels.multiply_gradient(linear.adapter->a_RD->gradient, du_NR.t(),
                            adapter_input(kernels, x_ND, saved.dropout));
}

// Sets dx to the gradient of the product's input.
void multiply_back(Kernels& kernels, const at::Tensor& dx_ND, const at::Tensor& dy_NO,
                   const Linear& linear, const AdapterSaved& saved, const at::Tensor& du_NR) {
  kernels.multiply(dx_ND, dy_NO, value_of(kernels, *linear.weight, dy_NO.scalar_type()));
  if (!linear.adapter) return;
  const at::Tensor& a_RD = linear.adapter->a_RD->value;
  if (saved.dropout.probability == 0) {
    kernels.multiply(dx_ND, du_NR, a_RD, /*accumulate=*/true);
    return;
  }
  const at::Tensor of_adapter_ND = at::empty_like(dx_ND);
  kernels.multiply(of_adapter_ND, du_NR, a_RD);
  at::Tensor(dx_ND).add_(kernels.dropped(of_adapter_ND, saved.dropout));
}

void multiply_by_weight(Pass& pass, const at::Tensor& y_NO, const at::Tensor& x_ND,
                        const Linear& linear, bool accumulate) {
  const at::Tensor weight_OD = value_of(pass.kernels, *linear.weight, x_ND.scalar_type());
  pass.kernels.multiply(y_NO, x_ND, weight_OD.t(), accumulate);
}

// Returns residual + linear(x), if it is wanted.
at::Tensor residual_product(Pass& pass, const at::Tensor& residual_NO, const at::Tensor& x_ND,
                            const Linear& linear, AdapterSaved& saved) {
  at::Tensor y_NO;
  if (pass.wants_value()) {
    y_NO = linear.bias ? residual_NO + linear.bias->value : residual_NO.clone();
    multiply_by_weight(pass, y_NO, x_ND, linear, /*accumulate=*/true);
  }
  saved = add_adapter(pass, y_NO, x_ND, linear);
  return y_NO;
}

// Returns linear(x), if it is wanted.
at::Tensor product(Pass& pass, const at::Tensor& x_ND, const Linear& linear, AdapterSaved& saved) {
  at::Tensor y_NO;
  if (pass.wants_value()) {
    y_NO = at::empty({x_ND.size(0), linear.weight->shape().front()}, x_ND.options());
    if (linear.bias) y_NO.copy_(linear.bias->value.expand_as(y_NO));
    multiply_by_weight(pass, y_NO, x_ND, linear, /*accumulate=*/linear.bias != nullptr);
  }
  saved = add_adapter(pass, y_NO, x_ND, linear);
  return y_NO;
}

// Returns x as linear(x) saves it. The value is read only for gradients of the layer's parameters.
Activation saved_input(const Activation& x_ND, const Linear& linear) {
  return linear.is_trained() ? x_ND.saved() : Activation{.gradient = x_ND.gradient};
}

void run_linear_backward(Kernels& kernels, const at::Tensor& dy_NO, const Activation& x_ND,
                         const Linear& linear, const AdapterSaved& saved) {
  const at::Tensor du_NR = write_b_gradient(kernels, dy_NO, linear, saved);
  write_gradients(kernels, dy_NO, x_ND.saved_value(), linear, saved, du_NR);
  if (!x_ND.needs_gradient()) return;
  const at::Tensor dx_ND =
      at::empty({dy_NO.size(0), linear.weight->shape().back()}, dy_NO.options());
  multiply_back(kernels, dx_ND, dy_NO, linear, saved, du_NR);
  x_ND.gradient->add(dx_ND);
}

// The backward of linear(swiglu(gate_up)).
void run_swiglu_linear_backward(Kernels& kernels, const at::Tensor& dy_ND,
                                const Activation& gate_up_N2F, const Linear& linear,
                                const AdapterSaved& saved) {
  const at::Tensor value_N2F = gate_up_N2F.saved_value();
  const at::Tensor du_NR = write_b_gradient(kernels, dy_ND, linear, saved);
  if (!gate_up_N2F.needs_gradient()) {
    write_gradients(kernels, dy_ND, kernels.swiglu(value_N2F), linear, saved, du_NR);
    return;
  }
  at::Tensor dh_NF = at::empty({dy_ND.size(0), value_N2F.size(1) / 2}, dy_ND.options());
  multiply_back(kernels, dh_NF, dy_ND, linear, saved, du_NR);
  auto [again_NF, d_gate_up_N2F] = kernels.swiglu_backward(std::move(dh_NF), value_N2F);
  write_gradients(kernels, dy_ND, again_NF, linear, saved, du_NR);
  gate_up_N2F.gradient->add(d_gate_up_N2F);
}

// The gradient of a norm's weight; null if it is frozen.
GradientBuffer* gradient_of(Parameter& norm_weight) {
  return norm_weight.is_trained() ? &norm_weight.gradient : nullptr;
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
                              gradient_of(*weight_W_), dx_RW);
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
  return pass.tape.record(
      kernels.embedding(weight->value, token_ids_N),
      [&kernels, token_ids_N, weight, padding_idx](const at::Tensor& dy_ND) {
        if (padding_idx) dy_ND.masked_fill_(token_ids_N.eq(*padding_idx).unsqueeze(1), 0);
        kernels.embedding_backward(dy_ND, token_ids_N, weight->gradient);
      },
      weight->is_trained());
}

Activation residual_linear(Pass& pass, const Activation& residual_NO, const Activation& x_ND,
                           const Linear& linear) {
  Kernels& kernels = pass.kernels;
  AdapterSaved saved;
  const at::Tensor y_NO = residual_product(pass, residual_NO.value, x_ND.value, linear, saved);
  return pass.tape.record(
      y_NO,
      [&kernels, residual = residual_NO.gradient, x_ND = saved_input(x_ND, linear), linear,
       saved](const at::Tensor& dy_NO) {
        run_linear_backward(kernels, dy_NO, x_ND, linear, saved);
        if (residual) residual->add(dy_NO);
      },
      residual_NO.needs_gradient() || is_differentiated(x_ND, linear));
}

Activation rms_norm(Pass& pass, const Activation& x_ND, const ParameterPtr& weight_D,
                    double epsilon) {
  Kernels& kernels = pass.kernels;
  auto [y_ND, reciprocal_rms_N1] = kernels.rms_norm(x_ND.value, weight_D->value, epsilon);
  return pass.tape.record(
      std::move(y_ND),
      [&kernels, x_ND = x_ND.saved(), reciprocal_rms_N1, weight_D](at::Tensor dy_ND) {
        kernels.rms_norm_backward(std::move(dy_ND), x_ND.saved_value(), reciprocal_rms_N1,
                                  weight_D->value, gradient_of(*weight_D), *x_ND.gradient);
      },
      x_ND.needs_gradient() || weight_D->is_trained());
}

Activation rms_norm_linear(Pass& pass, const Activation& x_ND, const ParameterPtr& norm_weight_D,
                           double epsilon, const Linear& linear) {
  Kernels& kernels = pass.kernels;
  auto [norm_ND, reciprocal_rms_N1] = kernels.rms_norm(x_ND.value, norm_weight_D->value, epsilon);
  AdapterSaved saved;
  const at::Tensor y_NO = product(pass, norm_ND, linear, saved);
  const bool is_norm_differentiated = x_ND.needs_gradient() || norm_weight_D->is_trained();
  return pass.tape.record(
      y_NO,
      [&kernels, x_ND = x_ND.saved(), reciprocal_rms_N1, norm_weight_D, epsilon, linear, saved,
       is_norm_differentiated](at::Tensor dy_NO) {
        const at::Tensor value_ND = x_ND.saved_value();
        at::Tensor buffer_ND =
            linear.is_trained()
                ? kernels.rms_norm_again(value_ND, reciprocal_rms_N1, norm_weight_D->value, epsilon)
                : at::empty_like(value_ND);
        const at::Tensor du_NR = write_b_gradient(kernels, dy_NO, linear, saved);
        write_gradients(kernels, dy_NO, buffer_ND, linear, saved, du_NR);
        if (!is_norm_differentiated) return;
        multiply_back(kernels, buffer_ND, dy_NO, linear, saved, du_NR);
        dy_NO.reset();
        kernels.rms_norm_backward(std::move(buffer_ND), value_ND, reciprocal_rms_N1,
                                  norm_weight_D->value, gradient_of(*norm_weight_D),
                                  *x_ND.gradient);
      },
      is_norm_differentiated || linear.is_trained());
}

Activation linear(Pass& pass, const Activation& x_ND, const Linear& linear) {
  Kernels& kernels = pass.kernels;
  AdapterSaved saved;
  const at::Tensor y_NO = product(pass, x_ND.value, linear, saved);
  return pass.tape.record(
      y_NO,
      [&kernels, x_ND = saved_input(x_ND, linear), linear, saved](const at::Tensor& dy_NO) {
        run_linear_backward(kernels, dy_NO, x_ND, linear, saved);
      },
      is_differentiated(x_ND, linear));
}

Activation add(Pass& pass, const Activation& residual_ND, const Activation& x_ND) {
  return pass.tape.record(
      pass.wants_value() ? residual_ND.value + x_ND.value : at::Tensor(),
      [residual = residual_ND.gradient, x = x_ND.gradient](const at::Tensor& dy_ND) {
        if (x) x->add(residual ? dy_ND.clone() : dy_ND);
        if (residual) residual->add(dy_ND);
      },
      residual_ND.needs_gradient() || x_ND.needs_gradient());
}

Activation dropout(Pass& pass, const Activation& x_ND, const Dropout& dropout) {
  if (dropout.probability == 0 || !pass.tape.wants_gradients()) return x_ND;
  Kernels& kernels = pass.kernels;
  return pass.tape.record(
      pass.wants_value() ? kernels.dropped(x_ND.value, dropout) : at::Tensor(),
      [&kernels, x = x_ND.gradient, dropout](const at::Tensor& dy_ND) {
        x->add(kernels.dropped(dy_ND, dropout));
      },
      x_ND.needs_gradient());
}

Activation head_norms(Pass& pass, Activation qkv_NE, const AttentionHeads& heads,
                      const ParameterPtr& query_weight_W, const ParameterPtr& key_weight_W,
                      double epsilon) {
  Kernels& kernels = pass.kernels;
  const NormedHeads query(kernels, qkv_NE.value, 0, heads.query, query_weight_W, epsilon);
  const NormedHeads key(kernels, qkv_NE.value, heads.query, heads.key_value, key_weight_W, epsilon);
  return pass.tape.record(
      qkv_NE.value,
      [&kernels, qkv = qkv_NE.gradient, query, key](const at::Tensor& dqkv_NE) {
        query.run_backward(kernels, dqkv_NE);
        key.run_backward(kernels, dqkv_NE);
        qkv->add(dqkv_NE);
      },
      qkv_NE.needs_gradient());
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
  Kernels::Attention attention = [&] {
    const WorkScope work(TimePart::kAttentionForward);
    return kernels.attention(std::move(qkv_NE.value), heads, table,
                             pass.tape.is_recording() && qkv_NE.needs_gradient());
  }();
  const at::Tensor out = attention.out;
  return pass.tape.record(
      out,
      [&kernels, qkv = qkv_NE.gradient, attention = std::move(attention), heads,
       table](const at::Tensor& dout) mutable {
        const WorkScope work(TimePart::kAttentionForward);
        qkv->add(kernels.attention_backward(dout, std::move(attention), heads, table));
      },
      qkv_NE.needs_gradient());
}

Activation residual_swiglu_linear(Pass& pass, const Activation& residual_ND,
                                  const Activation& gate_up_N2F, const Linear& linear) {
  Kernels& kernels = pass.kernels;
  const bool reads_h = pass.wants_value() || linear.adapter;
  const at::Tensor h_NF = reads_h ? kernels.swiglu(gate_up_N2F.value) : at::Tensor();
  AdapterSaved saved;
  const at::Tensor y_ND = residual_product(pass, residual_ND.value, h_NF, linear, saved);
  return pass.tape.record(
      y_ND,
      [&kernels, residual = residual_ND.gradient, gate_up_N2F = gate_up_N2F.saved(), linear,
       saved](const at::Tensor& dy_ND) {
        run_swiglu_linear_backward(kernels, dy_ND, gate_up_N2F, linear, saved);
        if (residual) residual->add(dy_ND);
      },
      residual_ND.needs_gradient() || is_differentiated(gate_up_N2F, linear));
}

}  // namespace fsdp
