#include "trainer/data/sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

namespace fsdp::sampler_test {

using Rows = std::vector<int64_t>;

// The rows of all steps of one epoch.
Rows epoch(Sampler& sampler, int64_t number, int64_t steps) {
  Rows rows;
  for (int64_t step = number * steps; step < (number + 1) * steps; ++step) {
    const Rows more = sampler.rows_of_step(step);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

TEST_CASE("without shuffling, steps read the rows in order and start again at the end") {
  Sampler sampler(10, 4, /*shuffle=*/false, 1);
  CHECK(sampler.rows_of_step(0) == Rows{0, 1, 2, 3});
  CHECK(sampler.rows_of_step(1) == Rows{4, 5, 6, 7});
  CHECK(sampler.rows_of_step(2) == Rows{8, 9, 0, 1});
}

TEST_CASE("shuffled, no row comes twice in an epoch and each epoch has its own order") {
  for (const int64_t total : {1, 4, 5}) {
    Sampler sampler(50, total, /*shuffle=*/true, 1);
    const int64_t steps = steps_per_epoch(50, total);
    REQUIRE(steps == 50 / total);
    const Rows first = epoch(sampler, 0, steps);
    const Rows second = epoch(sampler, 1, steps);
    CHECK(first.size() == static_cast<size_t>(50 / total * total));
    CHECK(std::set(first.begin(), first.end()).size() == first.size());
    CHECK(std::set(second.begin(), second.end()).size() == second.size());
    CHECK(*std::ranges::min_element(first) >= 0);
    CHECK(*std::ranges::max_element(first) < 50);
    CHECK(first != second);
    CHECK(!std::ranges::is_sorted(first));
  }
}

TEST_CASE("shuffled with fewer rows than a step reads, rows are used equally often") {
  Sampler sampler(3, 6, /*shuffle=*/true, 1);
  Rows rows = sampler.rows_of_step(0);
  std::ranges::sort(rows);
  CHECK(rows == Rows{0, 0, 1, 1, 2, 2});
  CHECK(steps_per_epoch(3, 6) == 1);
}

TEST_CASE("the order is a function of the seed, whatever was asked before") {
  Sampler sampler(20, 4, true, 7);
  Sampler other(20, 4, true, 7);
  const Rows later = sampler.rows_of_step(8);
  other.rows_of_step(0);
  CHECK(other.rows_of_step(8) == later);
  Sampler reseeded(20, 4, true, 8);
  CHECK(reseeded.rows_of_step(8) != later);
}

TEST_CASE("the order of seed 1 stays what it is on every platform") {
  Sampler sampler(8, 8, true, 1);
  CHECK(sampler.rows_of_step(0) == Rows{7, 6, 0, 5, 2, 3, 1, 4});
}

TEST_CASE("ranks' shares follow each other and make up the step, for every number of ranks") {
  for (const bool shuffle : {false, true}) {
    Sampler sampler(100, 24, shuffle, 3);
    for (const int64_t step : {0, 3, 7}) {
      const Rows whole = sampler.rows_of_step(step);
      for (const int64_t ranks : {1, 2, 3, 4, 6}) {
        for (const int64_t accumulation : {1, 2}) {
          const int64_t size = 24 / ranks / accumulation;
          Rows joined;
          for (int64_t rank = 0; rank < ranks; ++rank) {
            const auto shares = sampler.rank_rows(step, rank, ranks, size, accumulation);
            REQUIRE(std::ssize(shares) == accumulation);
            for (const Rows& rows : shares) {
              REQUIRE(std::ssize(rows) == size);
              joined.insert(joined.end(), rows.begin(), rows.end());
            }
          }
          CHECK(joined == whole);
        }
      }
    }
  }
}

TEST_CASE("shares that do not add up to the total are an error") {
  Sampler sampler(100, 12, false, 1);
  CHECK_THROWS_AS(sampler.rank_rows(0, 0, 2, 4, 1), std::invalid_argument);
}

}  // namespace fsdp::sampler_test
