#include "trainer/model/layers.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <catch2/catch.hpp>

#include "tests/trainer/model/gradient_check.h"

namespace fsdp {
namespace {

const at::TensorOptions kDouble = at::TensorOptions(at::kDouble);
const at::TensorOptions kFloat = at::TensorOptions(at::kFloat);

at::Tensor textbook_rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return weight * (x * at::rsqrt(x.pow(2).mean(-1, true) + epsilon));
}

at::Tensor rotate_half(const at::Tensor& x) {
  const auto halves = x.chunk(2, -1);
  return at::cat({-halves[1], halves[0]}, -1);
}

// x: [B, heads, T, width].
at::Tensor textbook_rotary(const at::Tensor& x, double theta) {
  const int64_t width = x.size(3);
  const at::Tensor frequencies = 1.0 / at::pow(theta, at::arange(0, width, 2, x.options()) / width);
  const at::Tensor angles = at::outer(at::arange(x.size(2), x.options()), frequencies);
  const at::Tensor both = at::cat({angles, angles}, -1);
  return x * both.cos() + rotate_half(x) * both.sin();
}

at::Tensor textbook_attention(const at::Tensor& qkv_NE, int64_t length, const AttentionHeads& heads,
                              double theta) {
  const at::Tensor packed =
      qkv_NE.view({-1, length, heads.query + 2 * heads.key_value, heads.width}).transpose(1, 2);
  const auto parts = packed.split_with_sizes({heads.query, heads.key_value, heads.key_value}, 1);
  const int64_t group = heads.query / heads.key_value;
  const at::Tensor q = textbook_rotary(parts[0], theta);
  const at::Tensor k = textbook_rotary(parts[1], theta).repeat_interleave(group, 1);
  const at::Tensor v = parts[2].repeat_interleave(group, 1);
  const at::Tensor future = at::ones({length, length}, at::kBool).triu(1);
  const at::Tensor scores = (q.matmul(k.transpose(2, 3)) / std::sqrt(double(heads.width)))
                                .masked_fill(future, -std::numeric_limits<double>::infinity());
  return scores.softmax(-1).matmul(v).transpose(1, 2).reshape({-1, heads.query * heads.width});
}

TEST_CASE("embedding gives and adds the gradient of its rows") {
  const at::Tensor ids = at::tensor({3, 1, 3, 0}, at::kLong);
  const ParameterPtr weight = random_parameter({5, 4}, kDouble);
  const auto backward = [&] {
    const at::Tensor anchor = at::empty({0}, kDouble).requires_grad_();
    const at::Tensor y = embedding(anchor, ids, weight);
    CHECK(at::equal(y, weight->value.index_select(0, ids)));
    const auto dx = torch::autograd::grad({y}, {anchor}, {at::ones_like(y)});
    CHECK(dx[0].numel() == 0);
  };
  backward();
  const at::Tensor occurrences = at::tensor({1, 1, 0, 2, 0}, kDouble).unsqueeze(1).expand({5, 4});
  CHECK(at::equal(weight->gradient, occurrences));
  backward();
  CHECK(at::equal(weight->gradient, occurrences * 2));
}

TEST_CASE("residual_linear matches autograd") {
  const ParameterPtr weight = random_parameter({7, 5}, kDouble);
  check_gradients(
      {at::randn({6, 7}, kDouble), at::randn({6, 5}, kDouble)}, {weight},
      [&](const Tensors& x) { return residual_linear(x[0], x[1], weight); },
      [](const Tensors& x, const Tensors& w) { return x[0] + x[1].matmul(w[0].t()); }, 1e-12);
}

TEST_CASE("rms_norm matches autograd") {
  const ParameterPtr weight = random_parameter({8}, kDouble);
  check_gradients(
      {at::randn({6, 8}, kDouble)}, {weight},
      [&](const Tensors& x) { return rms_norm(x[0], weight, 0.1); },
      [](const Tensors& x, const Tensors& w) { return textbook_rms_norm(x[0], w[0], 0.1); }, 1e-12);
}

TEST_CASE("rms_norm_linear matches autograd") {
  const ParameterPtr norm = random_parameter({8}, kDouble);
  const ParameterPtr weight = random_parameter({5, 8}, kDouble);
  check_gradients(
      {at::randn({6, 8}, kDouble)}, {norm, weight},
      [&](const Tensors& x) { return rms_norm_linear(x[0], norm, 0.1, weight); },
      [](const Tensors& x, const Tensors& w) {
        return textbook_rms_norm(x[0], w[0], 0.1).matmul(w[1].t());
      },
      1e-12);
}

TEST_CASE("residual_swiglu_linear matches autograd") {
  const ParameterPtr weight = random_parameter({4, 6}, kDouble);
  check_gradients(
      {at::randn({5, 4}, kDouble), at::randn({5, 12}, kDouble)}, {weight},
      [&](const Tensors& x) { return residual_swiglu_linear(x[0], x[1], weight); },
      [](const Tensors& x, const Tensors& w) {
        const auto gate_up = x[1].chunk(2, 1);
        return x[0] + (at::silu(gate_up[0]) * gate_up[1]).matmul(w[0].t());
      },
      1e-12);
}

TEST_CASE("causal_attention matches autograd for any grouping of heads") {
  const int64_t key_value = GENERATE(4, 2, 1);
  const AttentionHeads heads{.query = 4, .key_value = key_value, .width = 6};
  const int64_t length = 9;
  const double theta = 100;
  const at::Tensor qkv = at::randn({2 * length, (4 + 2 * key_value) * 6}, kDouble);
  RotaryEmbedding rotary(heads.width, theta);
  check_gradients(
      {qkv}, {},
      [&](const Tensors& x) {
        // The argument is consumed, and leaves are not ours to write.
        return causal_attention(x[0] * 1.0, length, heads, rotary);
      },
      [&](const Tensors& x, const Tensors&) {
        return textbook_attention(x[0], length, heads, theta);
      },
      1e-10);
}

TEST_CASE("the rotary table is extended for longer sequences") {
  RotaryEmbedding rotary(4, 10000.0);
  rotary.table(2, kFloat);
  const RotaryEmbedding::Table longer = rotary.table(5, kFloat);
  CHECK(longer.cosine.size(0) == 5);
  CHECK(longer.cosine[4][0][0].item<float>() == Approx(std::cos(4.0)));
  CHECK(rotary.table(3, kFloat).sine.size(0) == 3);
}

TEST_CASE("a layer's value may be another buffer in backward") {
  const ParameterPtr weight = random_parameter({7, 5}, kDouble);
  const at::Tensor residual = at::zeros({2, 7}, kDouble).requires_grad_();
  const at::Tensor x = at::randn({2, 5}, kDouble).requires_grad_();
  const at::Tensor y = residual_linear(residual, x, weight);
  const at::Tensor whole_again = weight->value.clone();
  weight->value.reset();
  weight->value = whole_again;
  const at::Tensor dy = at::randn_like(y);
  CHECK(relative_error(torch::autograd::grad({y}, {x}, {dy})[0], dy.matmul(whole_again)) < 1e-12);
}

TEST_CASE("bf16 layers stay close to fp32") {
  const auto bf16 = at::TensorOptions(at::kBFloat16);
  const ParameterPtr norm = random_parameter({32}, bf16);
  const ParameterPtr weight = random_parameter({16, 32}, bf16);
  const ParameterPtr down = random_parameter({32, 8}, bf16);
  const auto layer = [&](const Tensors& x) {
    return residual_swiglu_linear(x[0], rms_norm_linear(x[0], norm, 1e-5, weight), down);
  };
  const auto reference = [](const Tensors& x, const Tensors& w) {
    const auto wide = [](const at::Tensor& t) { return t.to(at::kFloat); };
    const auto gate_up =
        textbook_rms_norm(wide(x[0]), wide(w[0]), 1e-5).matmul(wide(w[1]).t()).chunk(2, 1);
    return wide(x[0]) + (at::silu(gate_up[0]) * gate_up[1]).matmul(wide(w[2]).t());
  };
  check_gradients({at::randn({20, 32}, bf16)}, {norm, weight, down}, layer, reference, 0.02);
}

}  // namespace
}  // namespace fsdp
