#include "runner/report/speeds.h"

#include <algorithm>
#include <limits>

namespace fsdp {
namespace {

constexpr Interval kNotKnown{.low = 0, .high = std::numeric_limits<double>::infinity()};

double moves_by(const ComparisonRow& run) { return run.device == DeviceKind::kCuda ? 0.05 : 0.2; }

using Figure = std::optional<double> AttemptSummary::*;

// Tokens per second of the repeats, or at the quartiles of the step time.
Interval spread_of(const Series& series, Figure tokens_per_second) {
  const std::vector<double> repeats = figures_of(series, tokens_per_second);
  if (repeats.size() >= kLeastRepeats) {
    const auto [least, most] = std::ranges::minmax(repeats);
    return {.low = least, .high = most};
  }
  const ComparisonRow& run = series.median;
  if (measured_steps(run) < kLeastMeasuredSteps || !run.step_time_ms_median ||
      !run.step_time_ms_p25 || !run.step_time_ms_p75 || *run.step_time_ms_p25 <= 0) {
    return kNotKnown;
  }
  const double tokens = *(run.*tokens_per_second) * *run.step_time_ms_median;
  return {.low = tokens / *run.step_time_ms_p75, .high = tokens / *run.step_time_ms_p25};
}

}  // namespace

double measured_steps(const ComparisonRow& run) {
  return static_cast<double>(run.steps.value_or(0)) -
         static_cast<double>(run.warmup_steps_excluded);
}

Speed speed_against(const Series& row, const Series& other, Figure tokens_per_second) {
  const std::vector<double> own = figures_of(row, tokens_per_second);
  const std::vector<double> others = figures_of(other, tokens_per_second);
  if (own.empty() || others.empty()) return Speed::kNoDifference;
  static Bootstrap bootstrap;  // keeps its draws, which depend on the numbers of repeats only
  const Ratio ratio = bootstrap.ratio(own, others);
  const Speed larger = ratio.value > 1 ? Speed::kFaster : Speed::kSlower;
  if (ratio.is_confidence) return ratio.is_certain ? larger : Speed::kNoDifference;
  const Interval spread = spread_of(row, tokens_per_second);
  const Interval of_other = spread_of(other, tokens_per_second);
  const bool is_apart = spread.low > of_other.high || of_other.low > spread.high;
  const double at_least = 1 + moves_by(row.median);
  const bool is_far = std::max(ratio.value, 1 / ratio.value) > at_least;
  return is_apart && is_far ? larger : Speed::kNoDifference;
}

}  // namespace fsdp
