#include "runner/report/number_text.h"

#include <catch2/catch.hpp>

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
}

}  // namespace
}  // namespace fsdp
