#include "trainer/step/gradient_clipping.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "trainer/comm/mirror_group.h"

namespace fsdp::gradient_clipping_test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A group of two ranks. The other rank adds `others_value` to each sum.
class BesideAnother : public MirrorGroup {
 public:
  explicit BesideAnother(float others_value) : MirrorGroup(2), others_value_(others_value) {}
  Pending all_reduce(at::Tensor tensor, int) override {
    tensor.add_(others_value_);
    return {};
  }

 private:
  float others_value_;
};

float norm_of(const std::vector<at::Tensor>& gradients, ProcessGroup* group) {
  return global_norm_of(norms_of_parts(gradients, at::kCPU), group, at::kCPU).item<float>();
}

float divisor_of(double norm, double max_norm) {
  return clip_divisor(at::full({}, norm, at::kFloat), max_norm).item<float>();
}

TEST_CASE("the norm is that of all units on all ranks") {
  BesideAnother group(144);
  const std::vector<at::Tensor> gradients{at::full({9}, 1.f), at::full({4}, -2.f)};
  CHECK(norm_of(gradients, nullptr) == 5);
  CHECK(norm_of(gradients, &group) == 13);
}

TEST_CASE("the norm shows every rank a gradient that is not finite on any") {
  const float here = GENERATE(1.f, kInfinity, -kInfinity, std::nanf(""));
  const float there = GENERATE(1.f, kInfinity, std::nanf(""));
  const auto dtype = GENERATE(at::kFloat, at::kBFloat16);
  CAPTURE(here, there, dtype);
  BesideAnother group(there);
  const at::Tensor gradient = at::ones({300'001}, dtype);
  gradient[300'000] = here;
  const float norm = norm_of({gradient}, &group);
  CHECK(std::isfinite(norm) == (here == 1 && there == 1));
}

TEST_CASE("gradients are divided by what their norm is too large by, and never scaled up") {
  CHECK(divisor_of(6, 1.5) == Approx(4));
  CHECK(divisor_of(1.5, 1.5) == Approx(1));
  CHECK(divisor_of(0.1, 1.5) == 1);
  CHECK(divisor_of(0, 1.5) == 1);
  CHECK(std::isnan(divisor_of(std::nan(""), 1.5)));
}

}  // namespace fsdp::gradient_clipping_test
