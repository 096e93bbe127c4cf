#include "runner/plan/key_shares.h"

#include <catch2/catch.hpp>
#include <random>

namespace fsdp::test::key_shares_test {

std::vector<std::string> names(size_t keys) {
  std::vector<std::string> names;
  for (size_t i = 0; i < keys; ++i) names.push_back("key " + std::to_string(i));
  return names;
}

TEST_CASE("shares by key add up to the difference, however the keys interact") {
  std::minstd_rand random(7);
  std::uniform_real_distribution<double> figure(-1e9, 1e9);
  for (int round = 0; round < 200; ++round) {
    const size_t keys = 2 + static_cast<size_t>(round) % 5;
    std::map<uint32_t, PlannedFigures> made;
    const auto figures_of = [&](uint32_t set) -> std::optional<PlannedFigures> {
      if (!made.contains(set)) made[set] = {figure(random), figure(random)};
      return made[set];
    };
    const auto shares = shares_of(names(keys), figures_of);
    REQUIRE(shares);
    REQUIRE(shares->size() == keys);
    PlannedFigures sum{.time_ms = 0};
    for (const KeyShare& of : *shares) {
      sum.memory_bytes += of.share.memory_bytes;
      *sum.time_ms += of.share.time_ms.value();
    }
    const PlannedFigures first = made.at(0);
    const PlannedFigures last = made.at((uint32_t{1} << keys) - 1);
    CHECK(sum.memory_bytes == Approx(last.memory_bytes - first.memory_bytes).margin(1e-3));
    CHECK(*sum.time_ms == Approx(*last.time_ms - *first.time_ms).margin(1e-3));
  }
}

TEST_CASE("keys that act on their own have their own difference as their share") {
  const auto figures_of = [](uint32_t set) -> std::optional<PlannedFigures> {
    return PlannedFigures{.memory_bytes = 100.0 + ((set & 1) ? 8 : 0) - ((set & 2) ? 3 : 0)};
  };
  const auto shares = shares_of(names(2), figures_of);
  REQUIRE(shares);
  CHECK(shares->at(0).share.memory_bytes == 8);
  CHECK(shares->at(1).share.memory_bytes == -3);
  CHECK_FALSE(shares->at(0).share.time_ms);
  CHECK(key_shares_text({}) == "");
}

TEST_CASE("orders that pass a run that cannot be planned do not count") {
  // Key 1 needs key 0.
  const auto figures_of = [](uint32_t set) -> std::optional<PlannedFigures> {
    if (set == 2) return std::nullopt;
    return PlannedFigures{.memory_bytes = set == 0 ? 10.0 : set == 1 ? 14.0 : 15.0};
  };
  const auto shares = shares_of(names(2), figures_of);
  REQUIRE(shares);
  CHECK(shares->at(0).share.memory_bytes == 4);
  CHECK(shares->at(1).share.memory_bytes == 1);
  const auto impossible = [](uint32_t set) -> std::optional<PlannedFigures> {
    if (set == 1 || set == 2) return std::nullopt;
    return PlannedFigures{};
  };
  CHECK_FALSE(shares_of(names(2), impossible));
}

}  // namespace fsdp::test::key_shares_test
