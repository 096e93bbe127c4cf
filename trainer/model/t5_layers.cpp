// The layers that only T5 has, each with its backward.
#include "trainer/model/t5_layers.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "trainer/kernels/on_meta.h"
#include "trainer/kernels/work.h"

namespace fsdp {
namespace {

// Returns the kind of a `distance` >= 0. Each distance below half of the kinds has its own kind.
// Beyond, the kind grows with the logarithm of the distance. Computed in fp32, as in transformers.
int64_t kind_of(int64_t distance, int64_t kinds, int64_t distance_max) {
  const int64_t exact = kinds / 2;
  if (distance < exact) return distance;
  const float part = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                     static_cast<float>(std::log(static_cast<double>(distance_max) / exact));
  const auto beyond = static_cast<int64_t>(part * static_cast<float>(kinds - exact));
  return std::min(exact + beyond, kinds - 1);
}

}  // namespace

at::Tensor distance_kinds(int64_t kinds, int64_t distance_max, bool both_ways) {
  const int64_t kinds_of_side = both_ways ? kinds / 2 : kinds;
  at::Tensor result = at::empty({2 * distance_max + 1}, at::kLong);
  int64_t* out = result.data_ptr<int64_t>();
  for (int64_t to_key = -distance_max; to_key <= distance_max; ++to_key) {
    const bool is_after = to_key > 0;
    const int64_t distance = is_after && !both_ways ? 0 : std::abs(to_key);
    *out++ = kind_of(distance, kinds_of_side, distance_max) +
             (both_ways && is_after ? kinds_of_side : 0);
  }
  return result;
}

at::Tensor kinds_of_pairs(const at::Tensor& kinds, int64_t length) {
  const int64_t own_place = kinds.numel() / 2;  // the place of a query's distance to itself
  const at::Tensor queries_T = counted(0, length, kinds.options());
  const at::Tensor keys_T = counted(own_place, length, kinds.options());
  at::Tensor places_TT = keys_T.sub(queries_T.unsqueeze(1));
  places_TT.clamp_(0, kinds.numel() - 1);
  return kinds.gather(0, places_TT.flatten());
}

Activation relative_bias(Pass& pass, const at::Tensor& kinds, int64_t length,
                         const ParameterPtr& weight) {
  Kernels& kernels = pass.kernels;
  const int64_t heads = weight->shape().back();
  const at::Tensor bias_HTS =
      kernels.embedding(weight->value, kinds).view({length, -1, heads}).permute({2, 0, 1});
  return pass.tape.record(
      bias_HTS.contiguous(),
      [&kernels, kinds, heads, weight](const at::Tensor& dbias_HTS) {
        const at::Tensor rows = dbias_HTS.permute({1, 2, 0}).reshape({-1, heads});
        kernels.embedding_backward(rows, kinds, weight->gradient);
      },
      weight->is_trained());
}

Activation biased_attention(Pass& pass, const Activation& query_NE, const Activation& key_value_ME,
                            const Activation* bias_HTS, const BiasedAttentionOptions& options) {
  Kernels& kernels = pass.kernels;
  const auto views = [rows = options.rows, heads = options.heads](const at::Tensor& packed,
                                                                  int64_t parts) {
    return packed.view({rows, packed.size(0) / rows, parts, heads, -1}).unbind(2);
  };
  const auto keys = views(key_value_ME.value, 2);
  Kernels::BiasedAttention call{.q_BTHW = views(query_NE.value, 1)[0],
                                .k_BSHW = keys[0],
                                .v_BSHW = keys[1],
                                .bias_HTS = bias_HTS ? bias_HTS->value : at::Tensor(),
                                .is_bias_frozen = bias_HTS && !bias_HTS->needs_gradient(),
                                .key_counts_B = options.key_counts_B,
                                .is_causal = options.is_causal};
  if (pass.tape.wants_gradients()) call.dropout = options.dropout;
  const std::shared_ptr<GradientBuffer> bias = bias_HTS ? bias_HTS->gradient : nullptr;
  const bool needs_gradient = query_NE.needs_gradient() || key_value_ME.needs_gradient() || bias;
  Kernels::Attention attention = [&] {
    const WorkScope work(TimePart::kAttentionForward);
    return kernels.biased_attention(call, pass.tape.is_recording() && needs_gradient);
  }();
  const at::Tensor out = attention.out;
  return pass.tape.record(
      out,
      [&kernels, call, attention = std::move(attention), query = query_NE.gradient,
       key_value = key_value_ME.gradient, bias](const at::Tensor& dout) {
        const WorkScope work(TimePart::kAttentionForward);
        auto gradients = kernels.biased_attention_backward(dout, attention, call);
        if (query) query->add(gradients.dq_BTHW.reshape(dout.sizes()));
        if (key_value) {
          const at::Tensor dkv = at::stack({gradients.dk_BSHW, gradients.dv_BSHW}, 2);
          key_value->add(dkv.view({dkv.size(0) * dkv.size(1), -1}));
        }
        if (bias) bias->add(gradients.dbias_HTS);
      },
      needs_gradient);
}

Activation feed_forward_activation(Pass& pass, const Activation& x, FeedForward kind) {
  Kernels& kernels = pass.kernels;
  if (kind == FeedForward::kRelu) {
    return pass.tape.record(
        pass.wants_value() ? kernels.relu(x.value) : at::Tensor(),
        [&kernels, x = x.saved()](at::Tensor dy_NF) {
          x.gradient->add(kernels.relu_backward(std::move(dy_NF), x.saved_value()));
        },
        x.needs_gradient());
  }
  return pass.tape.record(
      pass.wants_value() ? kernels.gated_gelu(x.value) : at::Tensor(),
      [&kernels, x = x.saved()](const at::Tensor& dy_NF) {
        x.gradient->add(kernels.gated_gelu_backward(dy_NF, x.saved_value()));
      },
      x.needs_gradient());
}

}  // namespace fsdp
