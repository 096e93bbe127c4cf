#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "runner/series/speeds.h"

namespace fsdp {
namespace {

// Returns the sum of twelve uniform numbers: nearly normal, and the same with every library.
double normal(std::mt19937_64& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(random() >> 11) * 0x1p-53;
  return sum;
}

std::vector<double> noisy_times(std::mt19937_64& random, size_t count, double median_ms) {
  std::vector<double> times;
  for (size_t i = 0; i < count; ++i) times.push_back(median_ms * std::exp(0.05 * normal(random)));
  return times;
}

// Returns the fraction of 1,000 simulated comparisons whose interval holds the true ratio 2.
double coverage(size_t repeats) {
  std::mt19937_64 random(1);
  Bootstrap bootstrap;
  int held = 0;
  for (int i = 0; i < 1'000; ++i) {
    const auto row = noisy_times(random, repeats, 200);
    const auto baseline = noisy_times(random, repeats, 100);
    if (bootstrap.ratio(row, baseline).interval->contains(2)) ++held;
  }
  return held / 1'000.0;
}

TEST_CASE("a 95 % interval holds the true ratio about as often as it says") {
  CHECK(coverage(3) < 0.92);  // so reports call it a range, not an interval
  CHECK(coverage(5) > 0.94);
  CHECK(coverage(10) > 0.94);
  for (const size_t repeats : {5u, 10u, 30u}) CHECK(coverage(repeats) < 0.985);
}

TEST_CASE("an interval lies around its ratio, and is narrower with more repeats") {
  std::mt19937_64 random(2);
  double last_width = 1;
  for (const size_t repeats : {3u, 10u, 100u}) {
    const Ratio ratio =
        Bootstrap().ratio(noisy_times(random, repeats, 150), noisy_times(random, repeats, 100));
    INFO(repeats << ": " << ratio.interval->low << " " << ratio.value);
    CHECK(ratio.interval->low <= ratio.value);
    CHECK(ratio.value <= ratio.interval->high);
    CHECK(ratio.interval->high - ratio.interval->low < last_width);
    CHECK_FALSE(ratio.interval->contains(1));
    last_width = ratio.interval->high - ratio.interval->low;
  }
}

TEST_CASE("a ratio needs three repeats on both sides for an interval") {
  Bootstrap bootstrap;
  CHECK_FALSE(bootstrap.ratio({2, 2}, {1, 1, 1}).interval);
  CHECK_FALSE(bootstrap.ratio({2, 2, 2}, {1}).interval);
  CHECK(bootstrap.ratio({2, 2}, {1}).value == 2);
  CHECK(bootstrap.ratio({2, 2, 2}, {1, 1, 1}).interval);
}

TEST_CASE("of three and four repeats the interval is the range of what was seen, of five 95 %") {
  const Ratio four = Bootstrap().ratio({150, 200, 210, 300}, {75, 100, 110, 125});
  CHECK_FALSE(four.is_confidence);
  CHECK(four.interval->low == 150.0 / 125);
  CHECK(four.interval->high == 300.0 / 75);
  CHECK_FALSE(Bootstrap().ratio({2, 2, 2, 2, 2}, {1, 1, 1}).is_confidence);
  CHECK(Bootstrap().ratio({2, 2, 2, 2, 2}, {1, 1, 1, 1, 1}).is_confidence);
}

TEST_CASE("overlapping repeats are no difference, and those without noise are one") {
  Bootstrap bootstrap;
  CHECK(bootstrap.ratio({99, 101, 103}, {98, 100, 104}).interval->contains(1));
  CHECK_FALSE(bootstrap.ratio({101, 101, 101}, {100, 100, 100}).interval->contains(1));
  CHECK(bootstrap.ratio({100, 100, 100}, {100, 100, 100}).interval->contains(1));
}

TEST_CASE("an interval does not depend on what was asked before, nor on the order of repeats") {
  Bootstrap used;
  used.ratio({5, 6, 7, 8}, {1, 2, 3});
  const Ratio again = used.ratio({3, 1.5, 2}, {1, 1.25, 0.75});
  const Ratio fresh = Bootstrap().ratio({1.5, 2, 3}, {0.75, 1, 1.25});
  CHECK(again.interval->low == fresh.interval->low);
  CHECK(again.interval->high == fresh.interval->high);
  // The interval of three repeats is the ratio of their extremes.
  CHECK(fresh.interval->low == 1.2);
  CHECK(fresh.interval->high == 4);
}

// The tables are two-sided.
TEST_CASE("the tails of Student's distribution are those of its tables") {
  CHECK(student_tails(12.706, 1) == Approx(0.05).epsilon(1e-3));
  CHECK(student_tails(4.303, 2) == Approx(0.05).epsilon(1e-3));
  CHECK(student_tails(-2.306, 8) == Approx(0.05).epsilon(1e-3));
  CHECK(student_tails(2.131, 15) == Approx(0.05).epsilon(1e-3));
  CHECK(student_tails(8.610, 4) == Approx(0.001).epsilon(1e-3));
  CHECK(student_tails(3.291, 1'000'000) == Approx(0.001).epsilon(1e-2));
  CHECK(student_tails(0, 5) == 1);
  CHECK(student_tails(1e300, 3) == 0);
}

TEST_CASE("a ratio of what is not positive is a mistake of the caller's") {
  CHECK_THROWS_AS(Bootstrap().ratio({1}, {}), std::logic_error);
  CHECK_THROWS_AS(Bootstrap().ratio({1}, {0}), std::logic_error);
}

}  // namespace
}  // namespace fsdp
