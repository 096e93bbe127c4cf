#include "runner/table/number_text.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <random>

namespace fsdp {
namespace {

constexpr int64_t kGibibyte = int64_t{1} << 30;

TEST_CASE("figures are rounded for people") {
  CHECK(three_digits(0.0) == "0.00");
  CHECK(three_digits(0.012345) == "0.0123");
  CHECK(three_digits(1.0) == "1.00");
  CHECK(three_digits(99.94) == "99.9");
  CHECK(three_digits(99.96) == "100");
  CHECK(three_digits(123.6) == "124");
  CHECK(three_digits(123456.7) == "123457");
  CHECK(three_digits(std::optional<double>()) == "-");
  CHECK(gibibytes(kGibibyte, kGibibyte + 1) == "1.00");
  CHECK(gibibytes(kGibibyte, 2 * kGibibyte) == "1.00-2.00");
  CHECK(gibibytes(std::nullopt) == "-");
  CHECK(duration(850) == "850 ms");
  CHECK(duration(12'340) == "12.3 s");
  CHECK(duration(245'000) == "4 min 05 s");
  CHECK(duration(7'380'000) == "2 h 03 min");
  CHECK(ratio(1.254) == "x1.25");
  CHECK(whole_percent(91.4) == "91");
  CHECK(whole_percent(0.43) == "0.430");  // of 1,000 ranks, where 0 % would be no work at all
  CHECK(whole_percent(0.0) == "0");
}

TEST_CASE("a bound is never smaller than what it bounds, and has one digit") {
  CHECK(rounded_up(1.49e-5) == "2e-5");
  CHECK(rounded_up(2e-7) == "2e-7");
  CHECK(rounded_up(9.1e-5) == "1e-4");
  CHECK(rounded_up(0.0123) == "2e-2");
  std::mt19937_64 random(3);
  for (int i = 0; i < 1'000; ++i) {
    const double bound = std::ldexp(1 + static_cast<double>(random() % 1000) / 1000, -(i % 60));
    const double read = std::strtod(rounded_up(bound).c_str(), nullptr);
    CAPTURE(bound);
    CHECK(read >= bound);
    CHECK(read <= 2.0001 * bound);
  }
}

}  // namespace
}  // namespace fsdp
