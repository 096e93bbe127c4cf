#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>

#include "trainer/kernels/swiglu.cuh"

// Runs the functions of the SwiGLU kernel's threads on the host.
namespace fsdp {
namespace {

template <typename T, int kCount>
void check_swiglu_backward(at::ScalarType type, double tolerance) {
  constexpr int64_t kRows = 5;
  constexpr int64_t kWidth = 24;
  const at::Tensor dh = at::randn({kRows, kWidth}).to(type);
  const at::Tensor gate_up = at::randn({kRows, 2 * kWidth}).mul_(3).to(type);
  const at::Tensor wide = gate_up.to(at::kDouble).requires_grad_();
  const auto halves = wide.chunk(2, 1);
  const at::Tensor h = at::silu(halves[0]) * halves[1];
  const at::Tensor expected = torch::autograd::grad({h}, {wide}, {dh.to(at::kDouble)})[0];

  const at::Tensor d_gate_up = at::full_like(gate_up, NAN);
  for (int64_t part = 0; part < kRows * kWidth / kCount; ++part) {
    swiglu_backward_part<T, kCount>(dh.data_ptr<T>(), gate_up.const_data_ptr<T>(),
                                    d_gate_up.data_ptr<T>(), kWidth, part);
  }
  CHECK(at::allclose(dh.to(at::kDouble), h.detach(), tolerance, tolerance));
  CHECK(at::allclose(d_gate_up.to(at::kDouble), expected, tolerance, tolerance));
}

}  // namespace

TEST_CASE("SwiGLU's gradient by parts is that in fp64", "[swiglu]") {
  check_swiglu_backward<float, 4>(at::kFloat, 1e-5);
  check_swiglu_backward<float, 1>(at::kFloat, 1e-5);
  check_swiglu_backward<at::BFloat16, 8>(at::kBFloat16, 1e-2);
  check_swiglu_backward<at::Half, 8>(at::kHalf, 2e-3);
}

TEST_CASE("SwiGLU's gradient is finite for gates whose exponentials overflow", "[swiglu]") {
  for (const float gate : {-1000.0f, 1000.0f}) {
    const SwigluGradient gradient = swiglu_gradient(gate, 2, 3);
    CHECK(gradient.h == (gate > 0 ? 2000 : 0));
    CHECK(gradient.d_gate == (gate > 0 ? 6 : 0));
    CHECK(gradient.d_up == (gate > 0 ? 3000 : 0));
  }
}

}  // namespace fsdp
