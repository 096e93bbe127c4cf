#include "runner/experiment/largest_value.h"

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
        const auto found = largest_value(most, 8, [&](int64_t value) -> std::optional<ValueFit> {
          CHECK((value >= 1 && value <= most));
          if (value % step != 0) return std::nullopt;
          CHECK(asked.insert(value).second);
          return value <= limit ? ValueFit::kFits : ValueFit::kTooLarge;
        });
        const int64_t expected = std::min(limit, most) / step * step;
        CHECK(found.value_or(0) == expected);
      }
    }
  }
}

TEST_CASE("a large value takes few questions") {
  int asked = 0;
  const auto found = largest_value(100'000'000, 1, [&](int64_t value) {
    ++asked;
    return std::optional(value <= 7'654'321 ? ValueFit::kFits : ValueFit::kTooLarge);
  });
  CHECK(found == 7'654'321);
  CHECK(asked < 60);
}

TEST_CASE("a value that fits beside some that do not is found, whichever these are") {
  constexpr int64_t kLimit = 100;
  for (int64_t low = 1; low < kLimit; ++low) {
    for (int64_t high = low + 1; high <= std::min(kLimit, low + 60); ++high) {
      const auto found = largest_value(10'000, 1, [&](int64_t value) -> std::optional<ValueFit> {
        const bool is_exception = value >= low && value < high;
        return value <= kLimit && !is_exception ? ValueFit::kFits : ValueFit::kDoesNotFit;
      });
      if (found != kLimit) FAIL("from " << low << " to " << high - 1 << " none fits");
    }
  }
}

TEST_CASE("nothing is looked for above a value that is too large") {
  int64_t most = 0;
  const auto found = largest_value(1000, 1, [&](int64_t value) -> std::optional<ValueFit> {
    most = std::max(most, value);
    if (value > 9) return ValueFit::kTooLarge;
    return value > 6 ? ValueFit::kDoesNotFit : ValueFit::kFits;
  });
  CHECK(found == 6);
  CHECK(most == 10);
}

}  // namespace
}  // namespace fsdp
