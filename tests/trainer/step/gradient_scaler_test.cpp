#include "trainer/step/gradient_scaler.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "trainer/comm/mirror_group.h"

using namespace fsdp;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Two ranks, seen by one of them.
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

}  // namespace

TEST_CASE("unscaling divides by the scale and finds what is not finite") {
  const auto group = make_process_group({}, at::kCPU);
  GradientScaler scaler;
  scaler.set_state({.scale = 1024});
  const at::Tensor first = at::arange(1001, at::kFloat);
  const at::Tensor second = at::full({3}, 512.f);
  CHECK(scaler.unscale({first, second}, *group, at::kCPU).item<float>() == 0);
  CHECK(first.equal(at::arange(1001, at::kFloat) / 1024));
  CHECK(second.equal(at::full({3}, 0.5f)));
  const float bad = GENERATE(as<float>(), kInfinity, -kInfinity, std::nanf(""));
  CAPTURE(bad);
  second[2] = bad;
  const at::Tensor found = scaler.unscale({first, second}, *group, at::kCPU);
  CHECK(found.dim() == 0);
  CHECK(found.scalar_type() == at::kFloat);
  CHECK(found.item<float>() == 1);
}

TEST_CASE("every rank learns of a gradient that is not finite on any") {
  const bool is_found_here = GENERATE(false, true);
  const bool is_found_there = GENERATE(false, true);
  BesideAnother group(is_found_there ? 1 : 0);
  const at::Tensor gradient = at::full({5}, is_found_here ? kInfinity : 1.f);
  const float found = GradientScaler().unscale({gradient}, group, at::kCPU).item<float>();
  CHECK(found == (is_found_here || is_found_there ? 1 : 0));
}

TEST_CASE("the scale doubles after 2,000 steps without an overflow and halves at one") {
  GradientScaler scaler;
  CHECK(scaler.scale() == 65536);
  const auto good_steps = [&](int count) {
    for (int i = 0; i < count; ++i) scaler.update(false);
  };
  good_steps(1999);
  CHECK(scaler.scale() == 65536);
  good_steps(1);
  CHECK(scaler.scale() == 131072);
  good_steps(1999);
  scaler.update(true);
  scaler.update(true);
  CHECK(scaler.scale() == 32768);
  good_steps(1999);
  CHECK(scaler.scale() == 32768);
  CHECK(scaler.state().steps_since_growth == 1999);

  GradientScaler resumed;
  resumed.set_state(scaler.state());
  resumed.update(false);
  CHECK(resumed.scale() == 65536);
  CHECK(resumed.state().steps_since_growth == 0);
}

TEST_CASE("the scale stays a finite float") {
  GradientScaler scaler;
  const double largest = std::ldexp(1.0, 127);
  scaler.set_state({.scale = largest, .steps_since_growth = 1999});
  scaler.update(false);
  CHECK(scaler.scale() == largest);
  CHECK(scaler.state().steps_since_growth == 0);
}
