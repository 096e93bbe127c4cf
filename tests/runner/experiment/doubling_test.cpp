#include <bit>
#include <catch2/catch.hpp>
#include <set>

#include "base/text/config_error.h"
#include "runner/experiment/doubling_series.h"

using namespace fsdp;

namespace {

constexpr int64_t kLargest = 300;  // the largest value in any set

using Values = std::set<int64_t>;

// Finds the next of `values`; nullopt after the last.
NextValid in(const Values& values) {
  return [&values](int64_t value) -> std::optional<int64_t> {
    const auto found = values.lower_bound(value);
    return found == values.end() ? std::nullopt : std::optional(*found);
  };
}

Values multiples_of(int64_t step) {
  Values values;
  for (int64_t value = step; value <= kLargest; value += step) values.insert(value);
  return values;
}

Values divisors_of(int64_t total) {
  Values values;
  for (int64_t value = 1; value <= total; ++value) {
    if (total % value == 0) values.insert(value);
  }
  return values;
}

struct Searched {
  std::vector<int64_t> tried;
  std::optional<int64_t> fits;
  std::optional<int64_t> does_not;
};

// Searches on a device on which values up to `limit` fit. Checks what every search must do.
Searched search(const DoublingRange& range, const Values& values, int64_t limit,
                std::optional<int64_t> expected = {}) {
  Doubling doubling(range, in(values));
  if (expected) doubling.expect_to_be_largest(*expected);
  Searched searched;
  while (const std::optional<int64_t> value = doubling.next()) {
    // REQUIRE for each of half a million values takes minutes.
    const bool is_sound =
        values.contains(*value) && *value >= range.from && *value <= range.to.value_or(*value) &&
        *value > searched.fits.value_or(0) && *value < searched.does_not.value_or(*value + 1);
    if (!is_sound) FAIL("asked for " << *value << " with limit " << limit);
    searched.tried.push_back(*value);
    if (*value <= limit) {
      searched.fits = *value;
      doubling.fits(*value);
    } else {
      searched.does_not = *value;
      doubling.does_not_fit(*value);
    }
  }
  return searched;
}

// The largest value of the range that fits.
std::optional<int64_t> largest(const DoublingRange& range, const Values& values, int64_t limit) {
  const int64_t last = std::min(limit, range.to.value_or(limit));
  const auto above = values.upper_bound(last);
  if (above == values.begin() || *std::prev(above) < range.from) return std::nullopt;
  return *std::prev(above);
}

// Returns the values that doubling tries without refinement.
std::vector<int64_t> doubled_values(const DoublingRange& range, const Values& values) {
  std::vector<int64_t> doubled;
  for (auto value = values.find(range.from);
       value != values.end() && *value <= range.to.value_or(*value);
       value = values.lower_bound(2 * *value)) {
    doubled.push_back(*value);
  }
  return doubled;
}

size_t steps_to_bisect(size_t candidates) {
  return static_cast<size_t>(std::bit_width(candidates));
}

const Values kIntegers = multiples_of(1);
const std::vector<Values> kValueSets{kIntegers,        multiples_of(6),  divisors_of(240),
                                     divisors_of(211), divisors_of(256), {1, 2, 3, 50, 51, 52}};

// Calls check(range, values, limit) for every combination.
template <typename Check>
void for_every_search(bool refine, Check check) {
  for (const Values& values : kValueSets) {
    for (const int64_t from : values) {
      if (from > 40) break;
      std::vector<std::optional<int64_t>> ends{std::nullopt};
      for (int64_t to = from; to <= 210; to += to < 70 ? 1 : 13) ends.push_back(to);
      for (const auto& to : ends) {
        const DoublingRange range{.from = from, .to = to, .refine = refine};
        for (int64_t limit = 1; limit <= 200; ++limit) check(range, values, limit);
      }
    }
  }
}

}  // namespace

TEST_CASE("doubling with refine finds exactly the largest value that fits, in few steps") {
  int64_t searches = 0;
  for_every_search(true, [&](const DoublingRange& range, const Values& values, int64_t limit) {
    const Searched searched = search(range, values, limit);
    ++searches;
    if (searched.fits != largest(range, values, limit)) {
      FAIL("from " << range.from << " to " << range.to.value_or(0) << " limit " << limit);
    }
    const std::vector<int64_t> doubled = doubled_values(range, values);
    const auto gap_end = std::ranges::upper_bound(doubled, limit);
    const auto low = gap_end == doubled.begin() ? 0 : *std::prev(gap_end);
    const auto high =
        gap_end == doubled.end() ? std::min(2 * low, range.to.value_or(kLargest) + 1) : *gap_end;
    const auto between = std::distance(values.upper_bound(low), values.lower_bound(high));
    const size_t is_past_the_doubles = gap_end == doubled.end() ? 1 : 0;
    const size_t most = static_cast<size_t>(gap_end - doubled.begin()) + 1 +
                        (low == 0 ? 0 : steps_to_bisect(static_cast<size_t>(between)));
    if (searched.tried.size() > most + is_past_the_doubles) {
      FAIL("from " << range.from << " to " << range.to.value_or(0) << " limit " << limit << ": "
                   << searched.tried.size() << " steps, " << most << " are enough");
    }
  });
  CHECK(searches > 100'000);
}

TEST_CASE("a search that begins at the largest value proves it by two runs") {
  for_every_search(true, [&](const DoublingRange& range, const Values& values, int64_t limit) {
    const auto expected = largest(range, values, limit);
    if (!expected) return;
    const Searched searched = search(range, values, limit, expected);
    if (searched.fits != expected || searched.tried.size() > 2) {
      FAIL("from " << range.from << " to " << range.to.value_or(0) << " limit " << limit);
    }
  });
}

TEST_CASE("a search that goes on after smaller values goes to the expected one") {
  Doubling doubling({.from = 1, .to = {}, .refine = true}, in(kIntegers));
  doubling.fits(3);
  doubling.expect_to_be_largest(21);
  CHECK(doubling.next() == 21);
  doubling.fits(21);
  CHECK(doubling.next() == 22);
  doubling.does_not_fit(22);
  CHECK_FALSE(doubling.next());
}

TEST_CASE("what is known not to fit outranks what is expected") {
  Doubling doubling({.from = 1, .to = {}, .refine = true}, in(kIntegers));
  doubling.does_not_fit(20);
  doubling.expect_to_be_largest(21);
  CHECK(doubling.next() == 16);
}

TEST_CASE("a search that begins at a wrong value finds the largest all the same") {
  const DoublingRange range{.from = 2, .to = {}, .refine = true};
  for (const Values& values : {kIntegers, multiples_of(6), divisors_of(240)}) {
    const int64_t first = *values.lower_bound(range.from);
    for (const int64_t expected : values) {
      if (expected < first || first != range.from) continue;
      for (int64_t limit = 1; limit <= 200; ++limit) {
        if (search(range, values, limit, expected).fits != largest(range, values, limit)) {
          FAIL("expected " << expected << ", limit " << limit);
        }
      }
    }
  }
}

TEST_CASE("doubling without refine meets the doubles only, up to the first that does not fit") {
  for_every_search(false, [&](const DoublingRange& range, const Values& values, int64_t limit) {
    std::vector<int64_t> expected;
    for (const int64_t value : doubled_values(range, values)) {
      expected.push_back(value);
      if (value > limit) break;
    }
    if (search(range, values, limit).tried != expected) {
      FAIL("from " << range.from << " to " << range.to.value_or(0) << " limit " << limit);
    }
  });
}

TEST_CASE("what is known already, in whatever order it came, is not asked for again") {
  const DoublingRange range{.from = 1, .to = {}, .refine = true};
  for (int64_t limit = 1; limit <= 200; ++limit) {
    const std::vector<int64_t> tried = search(range, kIntegers, limit).tried;
    for (size_t known = 0; known <= tried.size(); ++known) {
      Doubling resumed(range, in(kIntegers));
      for (size_t i = known; i-- > 0;) {
        if (tried[i] <= limit) resumed.fits(tried[i]);
        if (tried[i] > limit) resumed.does_not_fit(tried[i]);
      }
      const int64_t next = resumed.next().value_or(0);
      if (next != (known == tried.size() ? 0 : tried[known])) {
        FAIL("limit " << limit << ", " << known << " known");
      }
    }
  }
}

TEST_CASE("a start that does not fit ends the search") {
  Doubling doubling({.from = 4, .to = {}, .refine = true}, in(kIntegers));
  CHECK(doubling.next() == 4);
  doubling.does_not_fit(4);
  CHECK_FALSE(doubling.next());
}

TEST_CASE("the values that may follow") {
  const NextValid any = in(kIntegers);
  const Values divisors = divisors_of(12);
  CHECK(Doubling({.from = 3, .to = {}, .refine = true}, any).while_all_fit(4) ==
        std::vector<int64_t>{3, 6, 12, 24});
  CHECK(Doubling({.from = 3, .to = 20, .refine = false}, any).while_all_fit(9) ==
        std::vector<int64_t>{3, 6, 12});
  CHECK(Doubling({.from = 3, .to = 20, .refine = true}, any).while_all_fit(9) ==
        std::vector<int64_t>{3, 6, 12, 20});
  CHECK(Doubling({.from = 1, .to = {}, .refine = true}, in(divisors)).while_all_fit(9) ==
        std::vector<int64_t>{1, 2, 4, 12});
}

// --- the largest value that fits by plans ---

namespace {

const NextValid kEach = [](int64_t value) { return std::optional(value); };

std::optional<int64_t> largest_from_1(const NextValid& next_valid, const FitsAt& fits_at) {
  const auto first = next_valid(1);
  if (!first) return std::nullopt;
  return largest_that_fits(Doubling({.from = *first, .to = {}, .refine = true}, next_valid),
                           fits_at);
}

}  // namespace

TEST_CASE("the largest value that fits is found among those that are allowed") {
  for (const int64_t step : {1, 3, 8}) {  // multiples of `step` are allowed
    const auto try_value = [&](int64_t value) {
      if (value % step != 0) throw ConfigError("", "", "is not this one");
    };
    for (int64_t limit = 0; limit < 70; ++limit) {
      for (const int64_t most : {1, 2, 40, 64, 1'000'000}) {
        INFO("multiples of " << step << " up to " << limit << " fit, at most " << most);
        const auto found = largest_from_1(
            next_valid_by(try_value, 8, most), [&](int64_t value) -> std::optional<ValueFit> {
              if (value % step != 0 || value > most) return std::nullopt;
              return value <= limit ? ValueFit::kFits : ValueFit::kTooLarge;
            });
        CHECK(found.value_or(0) == std::min(limit, most) / step * step);
      }
    }
  }
}

TEST_CASE("each value is tried once, and not beyond the gap between valid ones") {
  std::multiset<int64_t> tried;
  const NextValid next_valid = next_valid_by(
      [&](int64_t value) {
        tried.insert(value);
        if (value % 100 != 0) throw ConfigError("", "", "is not this one");
      },
      10, 1000);
  CHECK_FALSE(next_valid(1));
  CHECK(next_valid(95) == 100);
  CHECK(next_valid(93) == 100);
  CHECK_FALSE(next_valid(1001));
  CHECK(*tried.rbegin() == 100);
  CHECK(tried.count(97) == 1);
}

TEST_CASE("a large value takes few questions") {
  int asked = 0;
  const auto found = largest_from_1(kEach, [&](int64_t value) {
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
      const auto found = largest_from_1(kEach, [&](int64_t value) -> std::optional<ValueFit> {
        const bool is_exception = value >= low && value < high;
        return value <= kLimit && !is_exception ? ValueFit::kFits : ValueFit::kDoesNotFit;
      });
      if (found != kLimit) FAIL("from " << low << " to " << high - 1 << " none fits");
    }
  }
}

TEST_CASE("nothing is looked for above a value that is too large") {
  int64_t most = 0;
  const auto found = largest_from_1(kEach, [&](int64_t value) -> std::optional<ValueFit> {
    most = std::max(most, value);
    if (value > 9) return ValueFit::kTooLarge;
    return value > 6 ? ValueFit::kDoesNotFit : ValueFit::kFits;
  });
  CHECK(found == 6);
  CHECK(most == 10);
}

TEST_CASE("no largest value is known if a verdict is missing") {
  CHECK_FALSE(largest_from_1(kEach, [](int64_t value) {
    return value < 4 ? std::optional(ValueFit::kFits) : std::nullopt;
  }));
}
