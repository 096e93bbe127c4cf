#include "trainer/model/head.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <catch2/catch.hpp>

#include "tests/trainer/model/gradient_check.h"

namespace fsdp {
namespace {

constexpr int64_t kTokens = 10;
constexpr int64_t kVocabulary = 12;
constexpr double kLossScale = 0.3;

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
  // The loss itself is fp32 always.
  check_gradients(
      {h}, {weight},
      [&](const Tensors& x) {
        return linear_cross_entropy(x[0], labels, weight,
                                    {.loss_scale = kLossScale, .chunk_tokens = chunk_tokens});
      },
      [&](const Tensors& x, const Tensors& w) { return textbook_loss(x[0], w[0], labels); }, 1e-6);
}

TEST_CASE("linear_cross_entropy's gradients are exact in fp64") {
  const at::TensorOptions options(at::kDouble);
  const at::Tensor labels = some_labels();
  const ParameterPtr weight = random_parameter({kVocabulary, 6}, options);
  const at::Tensor h = at::randn({kTokens, 6}, options).requires_grad_();
  const at::Tensor w = weight->value.clone().requires_grad_();
  const auto expected = torch::autograd::grad({textbook_loss(h, w, labels)}, {h, w});
  const at::Tensor loss =
      linear_cross_entropy(h, labels, weight, {.loss_scale = kLossScale, .chunk_tokens = 4});
  CHECK(relative_error(weight->gradient, expected[1]) < 1e-12);
  CHECK(relative_error(torch::autograd::grad({loss}, {h})[0], expected[0]) < 1e-12);
}

TEST_CASE("linear_cross_entropy survives logits whose exponentials overflow or vanish") {
  const at::TensorOptions options(at::kFloat);
  const ParameterPtr weight = random_parameter({3, 1}, options);
  weight->value.copy_(at::tensor({-1.0f, 0.0f, 1.0f}).unsqueeze(1));
  const at::Tensor h = at::full({1, 1}, 500.0f);
  const at::Tensor loss = linear_cross_entropy(h, at::zeros({1}, at::kLong), weight, {});
  CHECK(loss.item<float>() == Approx(1000.0f));
}

TEST_CASE("without gradients linear_cross_entropy gives the loss only") {
  const ParameterPtr weight = random_parameter({kVocabulary, 6}, at::kFloat);
  const at::Tensor h = at::randn({kTokens, 6}).requires_grad_();
  const at::Tensor labels = some_labels();
  weight->gradient.reset();
  const at::NoGradGuard no_gradients;
  const at::Tensor loss =
      linear_cross_entropy(h, labels, weight, {.loss_scale = kLossScale, .chunk_tokens = 4});
  CHECK(relative_error(loss, textbook_loss(h, weight->value, labels)) < 1e-6);
  CHECK_FALSE(loss.requires_grad());
  CHECK_FALSE(weight->gradient_written);
}

TEST_CASE("linear_cross_entropy of masked labels only is zero, and so are its gradients") {
  const ParameterPtr weight = random_parameter({kVocabulary, 6}, at::kFloat);
  const at::Tensor h = at::randn({kTokens, 6}).requires_grad_();
  const at::Tensor labels = at::full({kTokens}, kNoLabel, at::kLong);
  const at::Tensor loss = linear_cross_entropy(h, labels, weight, {.loss_scale = kLossScale});
  CHECK(loss.item<float>() == 0);
  CHECK(weight->gradient.abs().max().item<float>() == 0);
  CHECK(torch::autograd::grad({loss}, {h})[0].abs().max().item<float>() == 0);
}

TEST_CASE("the loss of bf16 is summed and exponentiated in fp32") {
  const at::TensorOptions bf16(at::kBFloat16);
  const ParameterPtr weight = random_parameter({4000, 16}, bf16);
  const at::Tensor h = at::randn({kTokens, 16}, bf16).requires_grad_();
  const at::Tensor labels = some_labels();
  const at::Tensor logits = h.detach().matmul(weight->value.t()).to(at::kFloat);
  const at::Tensor expected =
      at::cross_entropy_loss(logits, labels, /*weight=*/{}, at::Reduction::Sum, kNoLabel) *
      kLossScale;
  const at::Tensor w = weight->value.to(at::kFloat).requires_grad_();
  const at::Tensor wide = h.detach().to(at::kFloat).requires_grad_();
  const auto gradients = torch::autograd::grad({textbook_loss(wide, w, labels)}, {wide, w});

  const at::Tensor loss =
      linear_cross_entropy(h, labels, weight, {.loss_scale = kLossScale, .chunk_tokens = 4});
  CHECK(loss.scalar_type() == at::kFloat);
  CHECK(relative_error(loss, expected) < 1e-6);
  CHECK(relative_error(weight->gradient, gradients[1]) < 0.02);
  CHECK(relative_error(torch::autograd::grad({loss}, {h})[0], gradients[0]) < 0.02);
}

TEST_CASE("gradient_scale scales gradients, not the loss") {
  const ParameterPtr weight = random_parameter({kVocabulary, 6}, at::kFloat);
  const at::Tensor h = at::randn({kTokens, 6}).requires_grad_();
  const at::Tensor labels = some_labels();
  const auto run = [&](double gradient_scale) {
    weight->gradient_written = false;
    const at::Tensor loss = linear_cross_entropy(
        h, labels, weight, {.loss_scale = kLossScale, .gradient_scale = gradient_scale});
    return std::vector<at::Tensor>{loss.detach(), torch::autograd::grad({loss}, {h})[0],
                                   weight->gradient.clone()};
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
    const at::Tensor figures = evaluate_cross_entropy(
        h, labels, weight, {.loss_scale = kLossScale, .chunk_tokens = chunk_tokens});
    const at::Tensor loss = linear_cross_entropy(h, labels, weight, {.loss_scale = kLossScale});
    CHECK(relative_error(figures[0], loss) < 1e-6);
    CHECK(figures[1].item<float>() == kTokens - 2);
  }
}

}  // namespace
}  // namespace fsdp
