// Computes T5's attention, whose scores have a bias. The CPU works row by row to save memory.
#include <ATen/ATen.h>

#include <limits>
#include <mutex>

#include "trainer/kernels/aten_kernels.h"
#include "trainer/kernels/attention_operators.h"
#include "trainer/kernels/on_meta.h"
#include "trainer/kernels/wide_type.h"

// Shape suffixes: B rows, T queries and S keys of a row, H heads, W head width.
namespace fsdp {
namespace {

using Call = Kernels::BiasedAttention;

bool wants_dbias(const Call& call) { return call.bias_HTS.defined() && !call.is_bias_frozen; }

constexpr double kNotScaled = 1.0;
constexpr double kUnseen = -std::numeric_limits<double>::infinity();

// --- on the CPU: one row at a time; backward computes the probabilities again ---

// The softmax of one row, before and after dropout.
class RowOfScores {
 public:
  RowOfScores(AtenKernels& kernels, const Call& call, int64_t row)
      : q_HTW(call.q_BTHW[row].transpose(0, 1)),
        k_HSW(call.k_BSHW[row].transpose(0, 1)),
        v_HSW(call.v_BSHW[row].transpose(0, 1)),
        kernels_(kernels),
        dropout_(call.dropout) {
    dropout_.seed += static_cast<uint64_t>(row);
    const at::Tensor keys_HWS = k_HSW.transpose(1, 2);
    at::Tensor scores_HTS = call.bias_HTS.defined() ? at::baddbmm(call.bias_HTS, q_HTW, keys_HWS)
                                                    : at::bmm(q_HTW, keys_HWS);
    const int64_t keys = k_HSW.size(1);
    if (call.key_counts_B.defined()) {
      const int64_t seen = call.key_counts_B[row].item<int64_t>();
      scores_HTS.narrow(2, seen, keys - seen).fill_(kUnseen);
    }
    if (call.is_causal) {
      const at::Tensor is_later =
          at::ones({q_HTW.size(1), keys}, scores_HTS.options().dtype(at::kBool)).triu_(1);
      scores_HTS.masked_fill_(is_later, kUnseen);
    }
    probabilities_HTS = scores_HTS.softmax(-1);
  }

  at::Tensor dropped(const at::Tensor& x_HTS) const {
    return dropout_.probability > 0 ? kernels_.dropped(x_HTS, dropout_) : x_HTS;
  }

  const at::Tensor q_HTW;
  const at::Tensor k_HSW;
  const at::Tensor v_HSW;
  at::Tensor probabilities_HTS;

 private:
  AtenKernels& kernels_;
  Dropout dropout_;
};

at::Tensor attend_by_rows(AtenKernels& kernels, const Call& call) {
  at::Tensor out_BTHW = at::empty(call.q_BTHW.sizes(), call.q_BTHW.options());
  for (int64_t row = 0; row < call.q_BTHW.size(0); ++row) {
    const RowOfScores scores(kernels, call, row);
    out_BTHW[row].copy_(
        at::bmm(scores.dropped(scores.probabilities_HTS), scores.v_HSW).transpose(0, 1));
  }
  return out_BTHW;
}

// Computes dscores = P (dP - sum(dP P)), with the probabilities P and their gradient dP.
Kernels::BiasedAttentionGradients attend_by_rows_backward(AtenKernels& kernels,
                                                          const at::Tensor& dout_BTHW,
                                                          const Call& call) {
  Kernels::BiasedAttentionGradients gradients{at::empty(call.q_BTHW.sizes(), call.q_BTHW.options()),
                                              at::empty(call.k_BSHW.sizes(), call.k_BSHW.options()),
                                              at::empty(call.v_BSHW.sizes(), call.v_BSHW.options()),
                                              at::Tensor()};
  if (const at::Tensor& bias_HTS = call.bias_HTS; wants_dbias(call)) {
    gradients.dbias_HTS =
        at::zeros(bias_HTS.sizes(), bias_HTS.options().dtype(wide_type(bias_HTS)));
  }
  for (int64_t row = 0; row < dout_BTHW.size(0); ++row) {
    const RowOfScores scores(kernels, call, row);
    const at::Tensor dout_HTW = dout_BTHW[row].transpose(0, 1);
    const at::Tensor& p_HTS = scores.probabilities_HTS;
    gradients.dv_BSHW[row].copy_(
        at::bmm(scores.dropped(p_HTS).transpose(1, 2), dout_HTW).transpose(0, 1));
    const at::Tensor dp_HTS = scores.dropped(at::bmm(dout_HTW, scores.v_HSW.transpose(1, 2)));
    const at::Tensor dscores_HTS =
        at::_softmax_backward_data(dp_HTS, p_HTS, -1, p_HTS.scalar_type());
    gradients.dq_BTHW[row].copy_(at::bmm(dscores_HTS, scores.k_HSW).transpose(0, 1));
    gradients.dk_BSHW[row].copy_(
        at::bmm(dscores_HTS.transpose(1, 2), scores.q_HTW).transpose(0, 1));
    if (gradients.dbias_HTS.defined()) gradients.dbias_HTS.add_(dscores_HTS);
  }
  return gradients;
}

// --- on a GPU: libtorch's memory-efficient kernel, which supports biases ---

// Returns an empty tensor [rows, heads, queries, S]. The kernel requires the keys of each query to
// begin at a multiple of 16 elements.
at::Tensor empty_added(const Call& call, int64_t rows, int64_t heads, int64_t queries) {
  constexpr int64_t kAlignment = 16;
  const int64_t keys = call.k_BSHW.size(1);
  const int64_t aligned = (keys + kAlignment - 1) / kAlignment * kAlignment;
  return at::empty({rows, heads, queries, aligned}, call.q_BTHW.options()).narrow(3, 0, keys);
}

// Returns the bias, with -infinity at unseen keys, expanded to [B, H, T, S]. nullopt if there is no
// bias and all keys are seen.
std::optional<at::Tensor> added_to_scores(const Call& call) {
  if (!call.bias_HTS.defined() && !call.key_counts_B.defined()) return std::nullopt;
  const int64_t queries = call.q_BTHW.size(1);
  const int64_t keys = call.k_BSHW.size(1);
  const int64_t rows = call.key_counts_B.defined() ? call.q_BTHW.size(0) : 1;
  const int64_t heads = call.bias_HTS.defined() ? call.q_BTHW.size(2) : 1;
  const at::Tensor added = empty_added(call, rows, heads, call.bias_HTS.defined() ? queries : 1);
  if (call.bias_HTS.defined()) {
    added.copy_(call.bias_HTS.unsqueeze(0).expand_as(added));
  } else {
    added.zero_();
  }
  if (call.key_counts_B.defined()) {
    const at::Tensor is_unseen_BS =
        counted(0, keys, call.key_counts_B.options()).ge(call.key_counts_B.unsqueeze(1));
    added.masked_fill_(is_unseen_BS.unsqueeze(1).unsqueeze(1), kUnseen);
  }
  return added.expand({call.q_BTHW.size(0), call.q_BTHW.size(2), queries, keys});
}

void seed_default_generator(const at::Device& device, uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

Tensors attend_efficiently(const Call& call, bool for_backward) {
  if (call.dropout.probability > 0) {
    seed_default_generator(call.q_BTHW.device(), call.dropout.seed);
  }
  auto [out_BHTW, log_sum_exp, seed, offset] = at::_scaled_dot_product_efficient_attention(
      call.q_BTHW.transpose(1, 2), call.k_BSHW.transpose(1, 2), call.v_BSHW.transpose(1, 2),
      added_to_scores(call), for_backward, call.dropout.probability, call.is_causal, kNotScaled);
  return {out_BHTW.transpose(1, 2), log_sum_exp, seed, offset};
}

Kernels::BiasedAttentionGradients attend_efficiently_backward(const at::Tensor& dout_BTHW,
                                                              const at::Tensor& out_BTHW,
                                                              const Tensors& saved,
                                                              const Call& call) {
  const std::optional<at::Tensor> added = added_to_scores(call);
  auto [dq, dk, dv, dadded] = at::_scaled_dot_product_efficient_attention_backward(
      dout_BTHW.transpose(1, 2), call.q_BTHW.transpose(1, 2), call.k_BSHW.transpose(1, 2),
      call.v_BSHW.transpose(1, 2), added.value_or(at::Tensor()), out_BTHW.transpose(1, 2),
      saved[kLogSumExp], saved[kPhiloxSeed], saved[kPhiloxOffset], call.dropout.probability,
      {true, true, true, wants_dbias(call)}, call.is_causal, kNotScaled);
  // The kernel skips tiles of keys that no query sees, and does not clear their memory.
  if (wants_dbias(call) && call.is_causal) dadded.tril_();
  return {dq.transpose(1, 2), dk.transpose(1, 2), dv.transpose(1, 2),
          wants_dbias(call) ? dadded.sum(0, /*keepdim=*/false, wide_type(dadded)) : at::Tensor()};
}

// --- on meta: the same allocations as on the CPU or on a GPU ---

Tensors empty_outputs(const Call& call, bool is_on_cpu, bool for_backward) {
  const at::Tensor& q = call.q_BTHW;
  if (is_on_cpu) return {at::empty(q.sizes(), q.options())};
  const std::optional<at::Tensor> added = added_to_scores(call);
  const int64_t queries = for_backward ? queries_of_log_sum_exp(q.size(1)) : 0;
  Tensors outputs = {at::empty(q.sizes(), q.options()),
                     at::empty({q.size(0), q.size(2), queries}, q.options().dtype(wide_type(q)))};
  // The seed and the offset of dropout lie on the host.
  for (int i = 0; i < 2; ++i) outputs.push_back(at::empty({}, at::kLong));
  return outputs;
}

Tensors empty_gradients(const Call& call, bool is_on_cpu) {
  const at::Tensor& q = call.q_BTHW;
  const at::Tensor& bias = call.bias_HTS;
  const std::optional<at::Tensor> added = is_on_cpu ? std::nullopt : added_to_scores(call);
  Tensors outputs;
  for (const at::Tensor& x : {q, call.k_BSHW, call.v_BSHW}) {
    outputs.push_back(at::empty(x.sizes(), x.options()));
  }
  at::Tensor dadded;
  if (!is_on_cpu) {
    if (wants_dbias(call)) dadded = empty_added(call, q.size(0), q.size(2), q.size(1));
    efficient_backward_workspace(q.transpose(1, 2), /*documents=*/nullptr);
  }
  outputs.push_back(wants_dbias(call)
                        ? at::empty(bias.sizes(), bias.options().dtype(wide_type(bias)))
                        : at::Tensor());
  return outputs;
}

Tensors reads_of(const Call& call) {
  Tensors reads = {call.q_BTHW, call.k_BSHW, call.v_BSHW};
  if (call.bias_HTS.defined()) reads.push_back(call.bias_HTS);
  return reads;
}

Kernels::BiasedAttention with_padded_heads(Call call, int64_t width) {
  for (at::Tensor* x : {&call.q_BTHW, &call.k_BSHW, &call.v_BSHW}) *x = padded_heads(*x, width);
  return call;
}

}  // namespace

// `saved` holds the kernel's tensors (see SavedByAttention). On the CPU backward reads none.
Kernels::Attention AtenKernels::biased_attention(const BiasedAttention& call, bool for_backward) {
  const at::Tensor& q = call.q_BTHW;
  const bool is_on_cpu = device_ == at::kCPU;
  const BiasedAttention padded = with_padded_heads(call, padded_width(q.size(3), q.scalar_type()));
  Tensors saved = launch_operator(
      "biased_attention", reads_of(padded),
      [&] {
        return is_on_cpu ? Tensors{attend_by_rows(*this, padded)}
                         : attend_efficiently(padded, for_backward);
      },
      [&] { return empty_outputs(padded, is_on_cpu, for_backward); });
  const at::Tensor out =
      saved[kOut].narrow(-1, 0, q.size(3)).reshape({q.size(0) * q.size(1), q.size(2) * q.size(3)});
  saved[kOut].reset();
  return {out, for_backward ? std::move(saved) : Tensors{}};
}

Kernels::BiasedAttentionGradients AtenKernels::biased_attention_backward(
    const at::Tensor& dout, const Attention& forward, const BiasedAttention& call) {
  const int64_t width = padded_width(call.q_BTHW.size(3), call.q_BTHW.scalar_type());
  const BiasedAttention padded = with_padded_heads(call, width);
  const auto as_BTHW = [&](const at::Tensor& x) {
    return padded_heads(x.view(call.q_BTHW.sizes()), width);
  };
  const at::Tensor dout_BTHW = as_BTHW(dout);
  const at::Tensor out_BTHW = as_BTHW(forward.out);
  BiasedAttentionGradients gradients;
  const Tensors tensors = launch_operator(
      "biased_attention_backward", reads_of(padded),
      [&] {
        gradients = device_ == at::kCPU
                        ? attend_by_rows_backward(*this, dout_BTHW, padded)
                        : attend_efficiently_backward(dout_BTHW, out_BTHW, forward.saved, padded);
        return Tensors{gradients.dq_BTHW, gradients.dk_BSHW, gradients.dv_BSHW,
                       gradients.dbias_HTS};
      },
      [&] { return empty_gradients(padded, device_ == at::kCPU); });
  const auto unpadded = [&](const at::Tensor& x) {
    return x.narrow(-1, 0, call.q_BTHW.size(3)).contiguous();
  };
  return {unpadded(tensors[0]), unpadded(tensors[1]), unpadded(tensors[2]), tensors[3]};
}

}  // namespace fsdp
