#include <cmath>
#include <numbers>
#include <random>

#include "tests/runner/report/made_up_results.h"

// Rows of equal speed, with the most noise that was seen in real runs.
namespace fsdp {
namespace {

// Makes rows. A seed gives the same rows with every standard library.
class RowMaker {
 public:
  RowMaker(uint64_t seed, int noise_shape) : random_(seed), noise_shape_(noise_shape) {}

  ComparisonRows equal_rows(size_t count, int64_t repeats) {
    const DeviceKind device = uniform() < 0.5 ? kCuda : kCpu;
    const double run_noise = device == kCuda ? 0.018 : 0.07;
    drift_ = normal();
    ComparisonRows rows;
    for (size_t row = 0; row < count; ++row) {
      std::vector<double> speeds;
      for (int64_t i = 0; i < repeats; ++i) speeds.push_back(1000 * std::exp(run_noise * noise()));
      add_repeats(rows, "row" + std::to_string(row), speeds, device);
    }
    return rows;
  }

 private:
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

  // With variance 1: normal, heavy-tailed, skewed, or of a host that drifts.
  double noise() {
    constexpr double kStays = 0.9;
    switch (noise_shape_) {
      case 0:
        return normal();
      case 1: {
        double squares = 0;
        for (int i = 0; i < 3; ++i) squares += std::pow(normal(), 2);
        return normal() / std::sqrt(squares);  // Student's t, 3 degrees of freedom
      }
      case 2:
        return 1 + std::log(1 - uniform());
      default:
        drift_ = kStays * drift_ + std::sqrt(1 - kStays * kStays) * normal();
        return (drift_ + normal()) / std::numbers::sqrt2;
    }
  }

  std::mt19937_64 random_;
  int noise_shape_;
  double drift_ = 0;
};

// Makes 200 experiments whose rows are equally fast. Returns how many have a row that is slower
// than the fastest.
int false_differences(size_t rows, int64_t repeats, int noise_shape) {
  int found = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const ComparisonRows runs = RowMaker(seed, noise_shape).equal_rows(rows, repeats);
    const std::deque<Series> all = series_of(runs);
    const SpeedFacts facts = speed_facts(mapped(all, [](const Series& row) { return &row; }));
    REQUIRE(facts.ranked.size() == rows);
    found += facts.fastest.size() < rows ? 1 : 0;
  }
  return found;
}

TEST_CASE("of 2 to 30 equal rows none is called slower in 95 % of reports") {
  for (const size_t rows : {2u, 10u, 30u}) {
    for (const int64_t repeats : {1, 3, 5, 10}) {
      for (const int noise_shape : {0, 1, 2, 3}) {
        CAPTURE(rows, repeats, noise_shape);
        CHECK(false_differences(rows, repeats, noise_shape) <= 10);
      }
    }
  }
}

}  // namespace
}  // namespace fsdp
