#include "trainer/kernels/aten_kernels.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>

#include "tests/trainer/model/gradient_check.h"

namespace fsdp::aten_kernels_test {

const at::TensorOptions kDouble = at::TensorOptions(at::kDouble);

TEST_CASE("swiglu and swiglu_backward match autograd") {
  AtenKernels kernels(at::kCPU);
  const at::Tensor gate_up = at::randn({5, 12}, kDouble).requires_grad_();
  const auto halves = gate_up.chunk(2, 1);
  const at::Tensor expected = at::silu(halves[0]) * halves[1];
  const at::Tensor dh = at::randn({5, 6}, kDouble);
  const at::Tensor expected_gradient = torch::autograd::grad({expected}, {gate_up}, {dh})[0];

  CHECK(relative_error(kernels.swiglu(gate_up.detach()), expected.detach()) < 1e-12);
  const auto [h, d_gate_up] = kernels.swiglu_backward(dh.clone(), gate_up.detach());
  CHECK(relative_error(h, expected.detach()) < 1e-12);
  CHECK(relative_error(d_gate_up, expected_gradient) < 1e-12);
}

TEST_CASE("rms_norm_backward adds to what the residual stream has") {
  AtenKernels kernels(at::kCPU);
  const at::Tensor x = at::randn({5, 8}, kDouble).requires_grad_();
  const at::Tensor weight = at::randn({8}, kDouble).requires_grad_();
  const at::Tensor y = x * at::rsqrt(x.pow(2).mean(-1, true) + 0.1) * weight;
  const at::Tensor dy = at::randn_like(y);
  const auto expected = torch::autograd::grad({y}, {x, weight}, {dy});

  const auto norm = kernels.rms_norm(x.detach(), weight.detach(), 0.1);
  CHECK(relative_error(norm.y_ND, y.detach()) < 1e-12);
  CHECK(relative_error(
            kernels.rms_norm_again(x.detach(), norm.reciprocal_rms_N1, weight.detach(), 0.1),
            y.detach()) < 1e-12);
  const at::Tensor residual = at::randn({5, 8}, kDouble);
  GradientBuffer dx{.tensor = residual.clone(), .is_written = true};
  GradientBuffer dweight{.tensor = at::full({8}, NAN, kDouble)};
  const void* buffer = dx.tensor.data_ptr();
  kernels.rms_norm_backward(dy.clone(), x.detach(), norm.reciprocal_rms_N1, weight.detach(),
                            &dweight, dx);
  CHECK(dx.tensor.data_ptr() == buffer);
  CHECK(relative_error(dx.tensor, expected[0] + residual) < 1e-12);
  CHECK(relative_error(dweight.tensor, expected[1]) < 1e-12);
}

TEST_CASE("a gradient's first writer overwrites, later ones add, its reader takes it") {
  GradientBuffer given{.tensor = at::full({3}, NAN)};
  given.add(at::ones({3}));
  given.add(at::ones({3}, at::kDouble));
  CHECK(given.tensor.equal(at::full({3}, 2.f)));

  GradientBuffer none;
  const at::Tensor term = at::ones({3});
  none.add(term);
  CHECK(none.tensor.is_same(term));
  CHECK(none.take().is_same(term));
  CHECK_THROWS_WITH(none.take(), Catch::Contains("nothing was added"));
}

TEST_CASE("a gradient in fp32 takes products of bf16, and adds to them") {
  AtenKernels kernels(at::kCPU);
  const at::Tensor a = at::randn({6, 40}).to(at::kBFloat16);
  const at::Tensor b = at::randn({40, 5}).to(at::kBFloat16);
  const at::Tensor expected = a.to(at::kDouble).mm(b.to(at::kDouble));
  GradientBuffer gradient{.tensor = at::full({6, 5}, NAN)};
  kernels.multiply_gradient(gradient, a, b, 0.5);
  CHECK(relative_error(gradient.tensor, expected * 0.5) < 3e-3);
  const at::Tensor once = gradient.tensor.clone();
  kernels.multiply_gradient(gradient, a, b, 0.5);
  CHECK(gradient.tensor.equal(once * 2));
}

TEST_CASE("embedding_backward sums the rows of equal tokens, as a GPU does too") {
  const auto device = GENERATE(at::kCPU, at::kCUDA);
  const int64_t vocabulary = GENERATE(7, 1000);
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  AtenKernels kernels(device);
  const at::Tensor ids = at::randint(7, {60}, at::kLong);
  const at::Tensor dy = at::randint(-3, 4, {60, 4}, at::kFloat);
  const at::Tensor expected = at::zeros({vocabulary, 4}).index_add_(0, ids, dy);
  GradientBuffer gradient{.tensor = at::full({vocabulary, 4}, NAN)};
  kernels.embedding_backward(dy.to(type), ids, gradient);
  CHECK(gradient.tensor.equal(expected));
  kernels.embedding_backward(dy.to(type), ids, gradient);
  CHECK(gradient.tensor.equal(expected * 2));
}

}  // namespace fsdp::aten_kernels_test
