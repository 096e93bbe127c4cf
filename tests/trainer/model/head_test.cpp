#include "trainer/model/head.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <catch2/catch.hpp>

#include "tests/trainer/model/gradient_check.h"
#include "trainer/memory/counting_allocator.h"

namespace fsdp::head_test {

constexpr int64_t kTokens = 10;
constexpr int64_t kVocabulary = 12;
constexpr double kLossScale = 0.3;

struct LossAndGradient {
  at::Tensor loss;
  at::Tensor dh;
};

LossAndGradient run_head(const at::Tensor& h, const at::Tensor& labels, const ParameterPtr& weight,
                         const CrossEntropyOptions& options) {
  LayerCall call;
  const Activation x = input(h);
  const at::Tensor loss = linear_cross_entropy(call.pass, x, labels, weight, options);
  call.tape.run_backward();
  return {loss, x.gradient->take()};
}

at::Tensor some_labels() {
  at::Tensor labels = at::randint(kVocabulary, {kTokens}, at::kLong);
  labels[0] = kNoLabel;
  labels.narrow(0, 6, 3).fill_(kNoLabel);
  return labels;
}

at::Tensor textbook_loss(const at::Tensor& h, const at::Tensor& weight, const at::Tensor& labels) {
  return at::cross_entropy_loss(h.matmul(weight.t()), labels, /*weight=*/{}, at::Reduction::Sum,
                                kNoLabel) *
         kLossScale;
}

TEST_CASE("linear_cross_entropy matches autograd whatever the chunk") {
  const int64_t chunk_tokens = GENERATE(1, 3, 5, 10, 64, 0);
  const at::TensorOptions options(at::kDouble);
  const at::Tensor labels = some_labels();
  const ParameterPtr weight = random_parameter({kVocabulary, 6}, options);
  const at::Tensor h = at::randn({kTokens, 6}, options);
  // The loss is always in fp32; the gradients are not.
  check_gradients(
      {h}, {weight},
      [&](Pass& pass, const std::vector<Activation>& x) {
        const CrossEntropyOptions options{.loss_scale = kLossScale, .chunk_tokens = chunk_tokens};
        return Activation{.value = linear_cross_entropy(pass, x[0], labels, weight, options)};
      },
      [&](const Tensors& x, const Tensors& w) { return textbook_loss(x[0], w[0], labels); }, 1e-12,
      /*tolerance_of_value=*/1e-6);
}

TEST_CASE("linear_cross_entropy survives logits whose exponentials overflow or vanish") {
  const at::TensorOptions options(at::kFloat);
  const ParameterPtr weight = random_parameter({3, 1}, options);
  weight->value.copy_(at::tensor({-1.0f, 0.0f, 1.0f}).unsqueeze(1));
  const at::Tensor h = at::full({1, 1}, 500.0f);
  const at::Tensor labels = at::zeros({1}, at::kLong);
  CHECK(run_head(h, labels, weight, {}).loss.item<float>() == Approx(1000.0f));
}

TEST_CASE("linear_cross_entropy of masked labels only is zero, and so are its gradients") {
  const ParameterPtr weight = random_parameter({kVocabulary, 6}, at::kFloat);
  const at::Tensor labels = at::full({kTokens}, kNoLabel, at::kLong);
  const LossAndGradient actual =
      run_head(at::randn({kTokens, 6}), labels, weight, {.loss_scale = kLossScale});
  CHECK(actual.loss.item<float>() == 0);
  CHECK(weight->gradient.tensor.abs().max().item<float>() == 0);
  CHECK(actual.dh.abs().max().item<float>() == 0);
}

TEST_CASE("the loss of bf16 is summed and exponentiated in fp32") {
  const at::TensorOptions bf16(at::kBFloat16);
  const ParameterPtr weight = random_parameter({4000, 16}, bf16);
  const at::Tensor h = at::randn({kTokens, 16}, bf16);
  const at::Tensor labels = some_labels();
  const at::Tensor logits = h.matmul(weight->value.t()).to(at::kFloat);
  const at::Tensor expected =
      at::cross_entropy_loss(logits, labels, /*weight=*/{}, at::Reduction::Sum, kNoLabel) *
      kLossScale;
  const at::Tensor w = weight->value.to(at::kFloat).requires_grad_();
  const at::Tensor wide = h.to(at::kFloat).requires_grad_();
  const auto gradients = torch::autograd::grad({textbook_loss(wide, w, labels)}, {wide, w});

  const LossAndGradient actual =
      run_head(h, labels, weight, {.loss_scale = kLossScale, .chunk_tokens = 4});
  CHECK(actual.loss.scalar_type() == at::kFloat);
  CHECK(relative_error(actual.loss, expected) < 1e-6);
  CHECK(relative_error(weight->gradient.tensor, gradients[1]) < 0.02);
  CHECK(relative_error(actual.dh, gradients[0]) < 0.02);
}

TEST_CASE("gradient_scale scales gradients, not the loss") {
  const ParameterPtr weight = random_parameter({kVocabulary, 6}, at::kFloat);
  const at::Tensor h = at::randn({kTokens, 6});
  const at::Tensor labels = some_labels();
  const auto run = [&](double gradient_scale) {
    weight->gradient.is_written = false;
    const LossAndGradient actual =
        run_head(h, labels, weight, {.loss_scale = kLossScale, .gradient_scale = gradient_scale});
    return std::vector<at::Tensor>{actual.loss, actual.dh, weight->gradient.tensor.clone()};
  };
  const std::vector<at::Tensor> plain = run(1.0);
  const std::vector<at::Tensor> scaled = run(8.0);
  CHECK(scaled[0].equal(plain[0]));
  CHECK(relative_error(scaled[1], plain[1] * 8) < 1e-6);
  CHECK(relative_error(scaled[2], plain[2] * 8) < 1e-6);
}

TEST_CASE("evaluation gives the loss and how many unmasked labels are the most likely token") {
  const ParameterPtr weight = random_parameter({kVocabulary, 6}, at::kFloat);
  const at::Tensor h = at::randn({kTokens, 6});
  at::Tensor labels = h.matmul(weight->value.t()).argmax(-1);
  labels[0] = (labels[0] + 1) % kVocabulary;  // wrong
  labels[1] = kNoLabel;                       // right, but masked
  for (const int64_t chunk_tokens : {3, 0}) {
    LayerCall call(Tape::Mode::kNoGradients);
    weight->gradient.tensor.reset();
    const at::Tensor figures = evaluate_cross_entropy(
        call.pass, h, labels, weight, {.loss_scale = kLossScale, .chunk_tokens = chunk_tokens});
    CHECK(relative_error(figures[0], textbook_loss(h, weight->value, labels)) < 1e-6);
    CHECK_FALSE(weight->gradient.is_written);
    CHECK(figures[1].item<float>() == kTokens - 2);
  }
}

// Returns the peak memory of the head's forward and backward.
int64_t head_peak_bytes(int64_t tokens, c10::DeviceType device) {
  constexpr int64_t kWidth = 6;
  const at::TensorOptions meta = at::TensorOptions(at::kMeta).dtype(at::kFloat);
  const ParameterPtr weight = random_parameter({16'384, kWidth}, meta);
  const at::Tensor labels = at::empty({tokens}, meta.dtype(at::kLong));
  const Activation h = input(at::empty({tokens, kWidth}, meta));
  AtenKernels kernels(device);
  LayerCall call;
  Pass pass{kernels, call.batch, call.tape, call.activations};
  MetaAllocator::instance().reset_peak();
  linear_cross_entropy(pass, h, labels, weight, {});
  call.tape.run_backward();
  return MetaAllocator::instance().allocated_bytes_max();
}

TEST_CASE("more tokens never take less memory of the head, on either side of a chunk's end") {
  MetaAllocator::instance().install();
  for (const auto& [device, chunk] : {std::pair(at::kCPU, 256), std::pair(at::kCUDA, 1024)}) {
    int64_t most = 0;
    for (int64_t tokens = chunk - 3; tokens < 3 * chunk + 3; ++tokens) {
      const int64_t bytes = head_peak_bytes(tokens, device);
      if (bytes < most) FAIL(tokens << " tokens take less than one token fewer on " << device);
      most = bytes;
    }
    CHECK(most > chunk * 16'384 * 4);
  }
}

}  // namespace fsdp::head_test
