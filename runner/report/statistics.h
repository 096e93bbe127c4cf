#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

// How sure a ratio of two repeated runs' figures is. Pure.
namespace fsdp {

struct Interval {
  double low = 0;
  double high = 0;
  bool contains(double value) const { return low <= value && value <= high; }
};

// The median of a row's repeats over that of the baseline's, with an interval where both sides have
// kLeastRepeats: a 95 % confidence interval where both have kLeastForConfidence, else the range
// from the least to the greatest ratio of a repeat to one of the baseline's.
struct Ratio {
  double value = 0;
  std::optional<Interval> interval{};
  bool is_confidence = false;  // the interval
  // Whether the interval says that the ratio may as well be 1.
  bool is_no_difference() const { return interval && interval->contains(1); }
};

// Below this a range would say more about luck than about the runs.
inline constexpr size_t kLeastRepeats = 3;
// From this many on, the interval held the true ratio in 95 to 97 % of simulated comparisons, with
// normal, heavy-tailed and skewed noise; of 3 repeats in 90 %, of 4 in 93 %.
inline constexpr size_t kLeastForConfidence = 5;

// Ratios of medians with percentile bootstrap intervals (B. Efron, R. Tibshirani: An Introduction
// to the Bootstrap, 1993, chapter 13): both sides are drawn anew from their own repeats kResamples
// times, with replacement; the interval is from the 2.5th to the 97.5th percentile of the ratios.
// The draws depend on the number of repeats only, with a fixed seed, so the same runs give the same
// interval in every report, and many rows share them: a draw of a sorted sample has its median at
// places that the sample's values do not change.
class Bootstrap {
 public:
  static constexpr size_t kResamples = 4'000;

  // Sorted values of a side, not empty, positive.
  Ratio ratio(std::vector<double> values, std::vector<double> baseline);

 private:
  // For each resample the two places (equal when their number is odd) in the sorted sample whose
  // mean is its median.
  struct MiddlePlaces {
    uint32_t below, above;
  };
  enum class Side { kRow, kBaseline };
  const std::vector<MiddlePlaces>& draws(Side side, size_t count);

  std::map<std::pair<Side, size_t>, std::vector<MiddlePlaces>> draws_;
};

// The chance that a value of Student's distribution is at least as far from 0 as `t`, on either
// side. `freedom`: degrees of freedom, at least 1.
double student_tails(double t, int64_t freedom);

}  // namespace fsdp
