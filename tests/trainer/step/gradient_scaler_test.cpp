#include "trainer/step/gradient_scaler.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace fsdp::gradient_scaler_test {

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

}  // namespace fsdp::gradient_scaler_test
