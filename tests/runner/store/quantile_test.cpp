#include "runner/store/quantile.h"

#include <catch2/catch.hpp>

namespace fsdp {
namespace {

double quantile_of(std::vector<double> values, double fraction) {
  return quantile(values, fraction);
}

TEST_CASE("quantiles are interpolated, and a median is the middle") {
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 2, 3}) == 2.5);
  CHECK(median({7}) == 7);
  CHECK(quantile_of({0, 10}, 0.25) == 2.5);
  CHECK(quantile_of({0, 10}, 1) == 10);
  CHECK(quantile_of({10, 0}, 0.25) == 2.5);
}

}  // namespace
}  // namespace fsdp
