#include "runner/series/statistics.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <stdexcept>
#include <utility>

#include "runner/store/quantile.h"

namespace fsdp {
namespace {

constexpr uint64_t kSeed = 20'261'121;
constexpr double kTail = 0.025;  // outside each end of a 95 % interval

}  // namespace

const std::vector<Bootstrap::MiddlePlaces>& Bootstrap::draws(Side side, size_t count) {
  std::vector<MiddlePlaces>& draws = draws_[{side, count}];
  if (!draws.empty()) return draws;
  draws.reserve(kResamples);
  std::mt19937_64 random(kSeed + 2 * count + static_cast<uint64_t>(side));
  std::vector<uint32_t> places(count);
  for (size_t i = 0; i < kResamples; ++i) {
    // std::uniform_int_distribution would give different numbers with other standard libraries.
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
  Ratio ratio{.value = median(values) / median(baseline)};
  const size_t repeats = std::min(values.size(), baseline.size());
  if (repeats < kLeastRepeats) return ratio;
  if (repeats < kLeastForConfidence) {
    ratio.interval =
        Interval{.low = values.front() / baseline.back(), .high = values.back() / baseline.front()};
    return ratio;
  }
  const std::vector<MiddlePlaces>& above = draws(Side::kRow, values.size());
  const std::vector<MiddlePlaces>& below = draws(Side::kBaseline, baseline.size());
  std::vector<double> ratios;
  for (size_t i = 0; i < kResamples; ++i) {
    const double drawn = (values[above[i].below] + values[above[i].above]) /
                         (baseline[below[i].below] + baseline[below[i].above]);
    if (!std::isfinite(drawn)) return ratio;  // the sum of the figures overflows
    ratios.push_back(drawn);
  }
  ratio.interval = Interval{.low = quantile(ratios, kTail), .high = quantile(ratios, 1 - kTail)};
  ratio.is_confidence = true;
  return ratio;
}

// M. Abramowitz, I. Stegun: Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
double student_tails(double t, int64_t freedom) {
  const double angle = std::atan(std::abs(t) / std::sqrt(static_cast<double>(freedom)));
  const double cosine = std::cos(angle);
  const bool is_odd = freedom % 2 == 1;
  double term = is_odd ? cosine : 1;
  double sum = 0;
  for (int64_t k = is_odd ? 1 : 0; k <= freedom - 2; k += 2) {
    sum += term;
    term *= cosine * cosine * static_cast<double>(k + 1) / static_cast<double>(k + 2);
  }
  const double within =
      is_odd ? 2 / std::numbers::pi * (angle + std::sin(angle) * sum) : std::sin(angle) * sum;
  return std::max(0.0, 1 - within);
}

}  // namespace fsdp
