// Computes the head's loss and its gradients in chunks of tokens, in forward.
#include "trainer/model/head.h"

// Shape suffixes: N tokens, C tokens of one chunk, D hidden_size, V vocabulary.
namespace fsdp {
namespace {

// Computes cross-entropy in chunks that share one buffer of logits.
class ChunkedCrossEntropy {
 public:
  ChunkedCrossEntropy(Kernels& kernels, const at::Tensor& h_ND, const at::Tensor& labels_N,
                      Parameter& weight_VD, const CrossEntropyOptions& options)
      : kernels_(kernels),
        h_ND_(h_ND),
        weight_VD_(weight_VD),
        options_(options),
        chunk_tokens_(options.chunk_tokens != 0 ? options.chunk_tokens : largest_chunk_tokens()),
        is_masked_N1_(labels_N.eq(kNoLabel).unsqueeze_(1)),
        labels_N1_(labels_N.clamp_min(0).unsqueeze_(1)),
        logits_CV_(at::empty({chunk_tokens_, weight_VD.shape().front()}, h_ND.options())) {
    const bool is_narrow = at::isReducedFloatingType(h_ND.scalar_type());
    loss_N1_ =
        at::empty({h_ND.size(0), 1}, is_narrow ? h_ND.options().dtype(at::kFloat) : h_ND.options());
  }

  // Calls visit(logits, first token, tokens) for each chunk; `visit` writes the chunk's losses.
  // Returns their sum over unmasked labels, times loss_scale.
  template <typename Visit>
  at::Tensor run(Visit visit) {
    for (int64_t start = 0; start < h_ND_.size(0); start += chunk_tokens_) {
      const int64_t count = std::min(chunk_tokens_, h_ND_.size(0) - start);
      const at::Tensor logits_CV = logits_CV_.narrow(0, 0, count);
      kernels_.multiply(logits_CV, h_ND_.narrow(0, start, count), weight_VD_.value.t());
      visit(logits_CV, start, count);
    }
    return loss_N1_.masked_fill_(is_masked_N1_, 0).sum().mul_(options_.loss_scale);
  }

  // Writes the chunk's losses, the weight's gradient, and to dh_CD the gradient of the chunk's h.
  // The logits' gradient is (p - one-hot label) * scale, and 0 for masked tokens. The scale is
  // applied to the products. The mask is applied to h and dh, which are smaller than the logits.
  void differentiate(const at::Tensor& logits_CV, int64_t start, int64_t count, at::Tensor dh_CD) {
    kernels_.cross_entropy(logits_CV, labels_N1_.narrow(0, start, count),
                           loss_N1_.narrow(0, start, count));
    const double scale = options_.loss_scale * options_.gradient_scale;
    const at::Tensor is_masked_C1 = is_masked_N1_.narrow(0, start, count);
    kernels_.multiply(dh_CD, logits_CV, weight_VD_.value, /*accumulate=*/false, scale);
    dh_CD.masked_fill_(is_masked_C1, 0);
    if (!weight_VD_.is_trained()) return;
    kernels_.multiply_gradient(weight_VD_.gradient, logits_CV.t(),
                               h_ND_.narrow(0, start, count).masked_fill(is_masked_C1, 0), scale);
  }

  // Writes the chunk's losses. Returns how many unmasked labels are the most likely token;
  // 0-dimensional, int64.
  at::Tensor count_right(const at::Tensor& logits_CV, int64_t start, int64_t count) {
    const at::Tensor labels_C1 = labels_N1_.narrow(0, start, count);
    return kernels_.evaluate_cross_entropy(logits_CV, labels_C1, loss_N1_.narrow(0, start, count))
        .eq(labels_C1)
        .masked_fill_(is_masked_N1_.narrow(0, start, count), false)
        .to(at::kLong)
        .sum();
  }

 private:
  // Chunks are not equal, because equal chunks could take less memory for a few more tokens.
  // Searches for the largest batch that fits rely on more tokens never taking less.
  int64_t largest_chunk_tokens() const {
    return std::min(h_ND_.size(0),
                    kernels_.chunk_tokens_max(weight_VD_.shape().front() * h_ND_.element_size()));
  }

  Kernels& kernels_;
  const at::Tensor& h_ND_;
  Parameter& weight_VD_;
  const CrossEntropyOptions& options_;
  int64_t chunk_tokens_;
  at::Tensor is_masked_N1_;
  at::Tensor labels_N1_;
  at::Tensor logits_CV_;
  at::Tensor loss_N1_;
};

}  // namespace

at::Tensor linear_cross_entropy(Pass& pass, const Activation& h_ND, const at::Tensor& labels_N,
                                const ParameterPtr& weight_VD, const CrossEntropyOptions& options) {
  const at::Tensor dh_ND = at::empty_like(h_ND.value);
  ChunkedCrossEntropy cross_entropy(pass.kernels, h_ND.value, labels_N, *weight_VD, options);
  const at::Tensor loss =
      cross_entropy.run([&](const at::Tensor& logits_CV, int64_t start, int64_t count) {
        cross_entropy.differentiate(logits_CV, start, count, dh_ND.narrow(0, start, count));
      });
  if (h_ND.needs_gradient()) {
    pass.tape.record([gradient = h_ND.gradient, dh_ND] { gradient->add(dh_ND); });
  }
  return loss;
}

at::Tensor evaluate_cross_entropy(Pass& pass, const at::Tensor& h_ND, const at::Tensor& labels_N,
                                  const ParameterPtr& weight_VD,
                                  const CrossEntropyOptions& options) {
  at::Tensor right = at::zeros({}, h_ND.options().dtype(at::kLong));
  ChunkedCrossEntropy cross_entropy(pass.kernels, h_ND, labels_N, *weight_VD, options);
  const at::Tensor loss =
      cross_entropy.run([&](const at::Tensor& logits_CV, int64_t start, int64_t count) {
        right.add_(cross_entropy.count_right(logits_CV, start, count));
      });
  return at::stack({loss, right.to(loss.scalar_type())});
}

at::Tensor loss_of(Pass& pass, const Activation& h_ND, const ParameterPtr& weight_VD) {
  const at::Tensor labels_N = pass.batch.labels_BT.flatten();
  const CrossEntropyOptions options{.loss_scale = pass.batch.loss_scale,
                                    .gradient_scale = pass.batch.gradient_scale};
  return pass.tape.wants_gradients()
             ? linear_cross_entropy(pass, h_ND, labels_N, weight_VD, options)
             : evaluate_cross_entropy(pass, h_ND.value, labels_N, weight_VD, options);
}

}  // namespace fsdp
