#include "runner/report/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <utility>

namespace fsdp {
namespace {

constexpr uint64_t kSeed = 20'261'121;
constexpr double kTail = 0.025;  // left out at each end of a 95 % interval

// The value at `fraction` of `values`, which are reordered.
double select_quantile(std::vector<double>& values, double fraction) {
  const double position = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::ptrdiff_t>(position);
  std::ranges::nth_element(values, values.begin() + below);
  const double value = values[static_cast<size_t>(below)];
  if (std::cmp_equal(below + 1, values.size())) return value;
  const double next = *std::min_element(values.begin() + below + 1, values.end());
  return std::lerp(value, next, position - static_cast<double>(below));
}

}  // namespace

double quantile(const std::vector<double>& values, double fraction) {
  const double position = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], position - static_cast<double>(below));
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return quantile(values, 0.5);
}

const std::vector<Bootstrap::MiddlePlaces>& Bootstrap::draws(Side side, size_t count) {
  std::vector<MiddlePlaces>& draws = draws_[{side, count}];
  if (!draws.empty()) return draws;
  draws.reserve(kResamples);
  std::mt19937_64 random(kSeed + 2 * count + static_cast<uint64_t>(side));
  std::vector<uint32_t> places(count);
  for (size_t i = 0; i < kResamples; ++i) {
    // Not std::uniform_int_distribution, whose numbers differ between standard libraries.
    for (uint32_t& place : places) place = static_cast<uint32_t>((random() >> 32) * count >> 32);
    std::ranges::sort(places);
    draws.push_back({places[(count - 1) / 2], places[count / 2]});
  }
  return draws;
}

Ratio Bootstrap::ratio(std::vector<double> values, std::vector<double> baseline) {
  std::ranges::sort(values);
  std::ranges::sort(baseline);
  if (values.empty() || baseline.empty() || values.front() <= 0 || baseline.front() <= 0) {
    throw std::logic_error("a ratio needs values above 0 on both sides");
  }
  Ratio ratio{.value = quantile(values, 0.5) / quantile(baseline, 0.5)};
  if (std::min(values.size(), baseline.size()) < kLeastRepeats) return ratio;
  const std::vector<MiddlePlaces>& above = draws(Side::kRow, values.size());
  const std::vector<MiddlePlaces>& below = draws(Side::kBaseline, baseline.size());
  ratios_.clear();
  for (size_t i = 0; i < kResamples; ++i) {
    ratios_.push_back((values[above[i].below] + values[above[i].above]) /
                      (baseline[below[i].below] + baseline[below[i].above]));
  }
  const double low = select_quantile(ratios_, kTail);
  ratio.interval = Interval{.low = low, .high = select_quantile(ratios_, 1 - kTail)};
  return ratio;
}

}  // namespace fsdp
