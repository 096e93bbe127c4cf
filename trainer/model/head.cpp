#include "trainer/model/head.h"

#include "trainer/model/node.h"
#include "trainer/model/product.h"

// Shape suffixes: N tokens, C tokens of one chunk, D hidden_size, V vocabulary.
namespace fsdp {
namespace {

constexpr int64_t kChunkBytesOnCpu = 16 << 20;
// Each chunk reads and writes the whole weight gradient: a GPU wants fewer, larger ones.
constexpr int64_t kChunkBytesOnGpu = 64 << 20;
constexpr int64_t kChunkTokensMin = 256;

struct LinearCrossEntropyBackward : torch::autograd::Node {
  // The weight's gradient was written for a loss gradient of 1, so this one is for it too.
  variable_list apply(variable_list&&) override { return {dh_ND}; }
  void release_variables() override { dh_ND.reset(); }

  at::Tensor dh_ND;
};

// Tokens of one chunk, such that all chunks are about equal.
int64_t chunk_tokens_of(const CrossEntropyOptions& options, const at::Tensor& h_ND,
                        const Parameter& weight_VD) {
  if (options.chunk_tokens != 0) return options.chunk_tokens;
  const int64_t tokens = h_ND.size(0);
  const int64_t bytes_per_token = weight_VD.value.size(0) * h_ND.element_size();
  const int64_t chunk_bytes = h_ND.is_cpu() ? kChunkBytesOnCpu : kChunkBytesOnGpu;
  const int64_t most = std::max(kChunkTokensMin, chunk_bytes / bytes_per_token);
  const int64_t chunks = std::max<int64_t>(1, (tokens + most - 1) / most);
  return (tokens + chunks - 1) / chunks;
}

// One buffer of logits for all chunks, and a second one in fp32 when the logits are narrower.
class ChunkedCrossEntropy {
 public:
  ChunkedCrossEntropy(const at::Tensor& h_ND, const at::Tensor& labels_N, Parameter& weight_VD,
                      const CrossEntropyOptions& options)
      : h_ND_(h_ND),
        weight_VD_(weight_VD),
        loss_scale_(options.loss_scale),
        gradient_scale_(options.loss_scale * options.gradient_scale),
        chunk_tokens_(chunk_tokens_of(options, h_ND, weight_VD)),
        mask_N1_(labels_N.ne(kNoLabel).unsqueeze_(1)),
        labels_N1_(labels_N.clamp_min(0).unsqueeze_(1)) {
    const std::vector<int64_t> shape = {chunk_tokens_, weight_VD.value.size(0)};
    logits_CV_ = at::empty(shape, h_ND.options());
    const bool reduced = at::isReducedFloatingType(h_ND.scalar_type());
    probabilities_CV_ = reduced ? at::empty(shape, h_ND.options().dtype(at::kFloat)) : logits_CV_;
    loss_N1_ = at::empty({h_ND.size(0), 1}, probabilities_CV_.options());
  }

  // Calls after_chunk(start, count) while probabilities() are the chunk's. Returns the loss.
  template <typename AfterChunk>
  at::Tensor run(AfterChunk after_chunk) {
    for (int64_t start = 0; start < h_ND_.size(0); start += chunk_tokens_) {
      const int64_t count = std::min(chunk_tokens_, h_ND_.size(0) - start);
      compute_probabilities_and_loss(start, count);
      after_chunk(start, count);
    }
    return loss_N1_.mul_(mask_N1_).sum().mul_(loss_scale_).to(at::kFloat);
  }

  // How many unmasked labels of the chunk are the most likely tokens; 0-dimensional, int64.
  at::Tensor count_right(int64_t start, int64_t count) const {
    const at::Tensor predicted = probabilities_CV_.narrow(0, 0, count).argmax(-1, /*keepdim=*/true);
    return predicted.eq(labels_N1_.narrow(0, start, count))
        .logical_and_(mask_N1_.narrow(0, start, count))
        .sum();
  }

  // Writes the weight's gradient and the gradient of the chunk's h into dh_CD.
  // d loss / d logits = (p - one-hot label) * scale, and 0 for masked tokens. The scale goes
  // into the products and the mask onto h and dh, which are smaller than the logits.
  void write_gradients(int64_t start, int64_t count, at::Tensor dh_CD) {
    at::Tensor d_logits = logits_CV_.narrow(0, 0, count);
    at::Tensor probabilities = probabilities_CV_.narrow(0, 0, count);
    const at::Tensor mask = mask_N1_.narrow(0, start, count);
    const at::Tensor minus_one = at::full({1, 1}, -1, probabilities.options()).expand({count, 1});
    probabilities.scatter_add_(1, labels_N1_.narrow(0, start, count), minus_one);
    if (!probabilities.is_same(d_logits)) d_logits.copy_(probabilities);
    multiply_into(dh_CD, d_logits, weight_VD_.value, /*accumulate=*/false, gradient_scale_);
    dh_CD.mul_(mask);
    write_product_gradient(weight_VD_, d_logits.t(), h_ND_.narrow(0, start, count) * mask,
                           gradient_scale_);
  }

 private:
  // With m the largest logit and p the probabilities, log-sum-exp = m - log max(p): max(p) is at
  // least 1 / V, so nothing is lost, and no pass over the logits but softmax takes an exponential.
  void compute_probabilities_and_loss(int64_t start, int64_t count) {
    const at::Tensor logits = logits_CV_.narrow(0, 0, count);
    at::Tensor probabilities = probabilities_CV_.narrow(0, 0, count);
    multiply_into(logits, h_ND_.narrow(0, start, count), weight_VD_.value.t());
    if (!probabilities.is_same(logits)) probabilities.copy_(logits);
    at::Tensor loss = loss_N1_.narrow(0, start, count);
    at::amax_out(loss, probabilities, -1, /*keepdim=*/true);
    loss.sub_(probabilities.gather(1, labels_N1_.narrow(0, start, count)));
    at::_softmax_out(probabilities, probabilities, -1, /*half_to_float=*/false);
    loss.sub_(probabilities.amax(-1, /*keepdim=*/true).log_());
  }

  const at::Tensor& h_ND_;
  Parameter& weight_VD_;
  double loss_scale_;
  double gradient_scale_;
  int64_t chunk_tokens_;
  at::Tensor mask_N1_;
  at::Tensor labels_N1_;
  at::Tensor logits_CV_;
  at::Tensor probabilities_CV_;
  at::Tensor loss_N1_;
};

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& h_ND, const at::Tensor& labels_N,
                                const ParameterPtr& weight_VD, const CrossEntropyOptions& options) {
  auto node = node_for<LinearCrossEntropyBackward>({h_ND});
  at::Tensor loss;
  {
    const ComputeGuard guard;
    at::Tensor dh_ND;
    if (node) dh_ND = at::empty_like(h_ND);
    ChunkedCrossEntropy cross_entropy(h_ND, labels_N, *weight_VD, options);
    loss = cross_entropy.run([&](int64_t start, int64_t count) {
      if (node) cross_entropy.write_gradients(start, count, dh_ND.narrow(0, start, count));
    });
    if (node) node->dh_ND = dh_ND;
  }
  if (node) torch::autograd::set_history(loss, node);
  return loss;
}

at::Tensor evaluate_cross_entropy(const at::Tensor& h_ND, const at::Tensor& labels_N,
                                  const ParameterPtr& weight_VD,
                                  const CrossEntropyOptions& options) {
  const ComputeGuard guard;
  at::Tensor right = at::zeros({}, h_ND.options().dtype(at::kLong));
  ChunkedCrossEntropy cross_entropy(h_ND, labels_N, *weight_VD, options);
  const at::Tensor loss = cross_entropy.run(
      [&](int64_t start, int64_t count) { right.add_(cross_entropy.count_right(start, count)); });
  return at::stack({loss, right.to(at::kFloat)});
}

}  // namespace fsdp
