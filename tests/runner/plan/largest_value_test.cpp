#include "runner/plan/largest_value.h"

#include <catch2/catch.hpp>
#include <set>

namespace fsdp {
namespace {

TEST_CASE("the largest value that fits is found among those that are allowed") {
  for (const int64_t step : {1, 3, 8}) {  // allowed are its multiples
    for (int64_t limit = 0; limit < 70; ++limit) {
      for (const int64_t most : {1, 2, 40, 64, 1'000'000}) {
        INFO("multiples of " << step << " up to " << limit << " fit, at most " << most);
        std::set<int64_t> asked;
        const auto found = largest_value(most, [&](int64_t value) -> std::optional<bool> {
          CHECK((value >= 1 && value <= most));
          if (value % step != 0) return std::nullopt;
          CHECK(asked.insert(value).second);
          return value <= limit;
        });
        const int64_t expected = std::min(limit, most) / step * step;
        CHECK(found.value_or(0) == expected);
      }
    }
  }
}

TEST_CASE("a large value takes few questions") {
  int asked = 0;
  const auto found = largest_value(100'000'000, [&](int64_t value) {
    ++asked;
    return std::optional(value <= 7'654'321);
  });
  CHECK(found == 7'654'321);
  CHECK(asked < 60);
}

}  // namespace
}  // namespace fsdp
