#include "trainer/step/stochastic_rounding.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace fsdp::stochastic_rounding_test {

constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr int64_t kCount = 1 << 20;

// A correct generator exceeds these bounds once in a million tries. Seeds are fixed, so the tests
// always pass.
constexpr double kDeviations = 5;

at::Tensor rounded(const at::Tensor& values, const Draws& draws = {}) {
  const at::Tensor result = at::empty(values.sizes(), at::kBFloat16);
  round_stochastically({result}, {values}, draws);
  return result;
}

// Returns 1 where tensor number `slot` is rounded up, else 0.
at::Tensor coins(const Draws& draws, size_t slot = 0) {
  std::vector<at::Tensor> to, from;
  for (size_t i = 0; i <= slot; ++i) {
    to.push_back(at::empty({kCount}, at::kBFloat16));
    from.push_back(at::full({kCount}, 1 + 1.0 / 256));  // midway between 1 and 1 + 1 / 128
  }
  round_stochastically(to, from, draws);
  return to[slot].gt(1).to(at::kDouble);
}

TEST_CASE("random numbers are SplitMix64's") {
  // Its published test vector.
  constexpr uint64_t kPublishedSeed = 1234567;
  CHECK(splitmix64(kPublishedSeed, 0) == 6457827717110365317u);
  CHECK(splitmix64(kPublishedSeed, 1) == 3203168211198807973u);
  CHECK(splitmix64(kPublishedSeed, 2) == 9817491932198370423u);
  CHECK(splitmix64(kPublishedSeed, 3) == 4593380528125082431u);
  CHECK(splitmix64(kPublishedSeed, 4) == 16408922859458223821u);
}

TEST_CASE("what bfloat16 holds stays") {
  const at::Tensor held =
      at::tensor({0.f, -0.f, 1.f, -3.140625f, 1e-40f, 3.3895314e38f, kInfinite, -kInfinite})
          .to(at::kBFloat16);
  const at::Tensor nans = at::tensor({0x7f800001, 0x7fffffff, -1}, at::kInt).view(at::kFloat);
  for (int64_t step = 0; step < 100; ++step) {
    const at::Tensor result = rounded(held.to(at::kFloat), {.step = step});
    CHECK(result.view(at::kShort).equal(held.view(at::kShort)));
    CHECK(rounded(nans, {.step = step}).isnan().all().item<bool>());
  }
}

TEST_CASE("a value is rounded up as often as it is near") {
  // The last digit of bfloat16 from 1 to 2, and of subnormal numbers from 4 / 4 to 5 / 4.
  const auto [scale, last_digit] = GENERATE(table<double, double>({{1, 1.0 / 128},
                                                                   {-1, 1.0 / 128},
                                                                   {0x1p60, 1.0 / 128},
                                                                   {-0x1p-100, 1.0 / 128},
                                                                   {0x1p-131, 1.0 / 4}}));
  const double fraction = GENERATE(0.5, 0.25, 0.75, 1.0 / 1024, 1 - 1.0 / 1024, 0x1p-16);
  CAPTURE(scale, fraction);
  const auto value = static_cast<float>(scale * (1 + fraction * last_digit));
  const at::Tensor result = rounded(at::full({kCount}, value)).to(at::kDouble).div_(scale);
  const at::Tensor is_up = result.eq(1 + last_digit);
  CHECK(is_up.logical_or(result.eq(1)).all().item<bool>());
  CHECK(is_up.to(at::kDouble).mean().item<double>() ==
        Approx(fraction).margin(kDeviations * std::sqrt(fraction * (1 - fraction) / kCount)));
}

TEST_CASE("neighbours, tensors, steps, parameters and seeds are independent") {
  const Draws draws{.parameter_key = random_key(1, "weight"), .step = 7};
  const at::Tensor some = coins(draws) - 0.5;
  const auto check_independent = [&](const at::Tensor& others) {
    const double mean = (some * (others - 0.5)).mean().item<double>();
    CHECK(std::abs(mean) < kDeviations * 0.25 / std::sqrt(kCount));
  };
  check_independent(coins({draws.parameter_key, draws.step, 1}));
  check_independent(coins({draws.parameter_key, draws.step + 1, 0}));
  check_independent(coins({random_key(1, "bias"), draws.step, 0}));
  check_independent(coins({random_key(2, "weight"), draws.step, 0}));
  for (size_t slot = 1; slot < 4; ++slot) check_independent(coins(draws, slot));
}

TEST_CASE("an element's rounding does not depend on those beside it") {
  const at::Tensor values = (at::arange(kCount, at::kDouble) * 0.37).sin().to(at::kFloat);
  const at::Tensor whole = rounded(values, {.first_element = 5});
  for (const int64_t begin : {1, 1000, 77'777}) {
    const at::Tensor part = values.narrow(0, begin, 3000);
    CHECK(rounded(part, {.first_element = 5 + begin}).equal(whole.narrow(0, begin, 3000)));
  }
}

TEST_CASE("tensor operations, as on a GPU, round to the same bits") {
  const at::Tensor values = (at::arange(kCount, at::kDouble) * 0.37).sin().to(at::kFloat);
  values[3] = kInfinite;
  values[4] = -kInfinite;
  values[5] = std::numeric_limits<float>::max();
  values[6] = -1e-40f;
  const Draws draws{.parameter_key = random_key(9, "weight"), .step = 3, .first_element = 1000};
  const at::Tensor unrounded = at::zeros({kCount});
  const auto targets = [&] {
    return std::vector{at::empty({kCount}, at::kBFloat16), unrounded,
                       at::empty({kCount}, at::kBFloat16)};
  };
  const std::vector<at::Tensor> from{values, values, -values};
  const std::vector<at::Tensor> expected = targets(), found = targets();
  round_stochastically(expected, from, draws);
  round_stochastically_by_operations(found, from, draws);
  for (const size_t i : {0, 2}) {
    CHECK(found[i].view(at::kShort).equal(expected[i].view(at::kShort)));
  }
  CHECK(unrounded.equal(at::zeros({kCount})));
}

}  // namespace fsdp::stochastic_rounding_test
