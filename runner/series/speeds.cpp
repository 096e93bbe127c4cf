// Tests if rows differ in speed beyond noise.
#include "runner/series/speeds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>

#include "runner/store/quantile.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

constexpr double kChanceOfError = 0.05;
constexpr int64_t kPriorFreedom = 4;
// The largest relative difference in unpadded parts at which rows count as equally padded.
constexpr double kEqualFill = 0.01;

// Standard deviations of the logarithm of a run's speed. After a restart a run's median changed by
// up to 5 % on GPUs, and by up to 20 % on shared CPUs. These limits are 1.96 standard deviations of
// the difference of two runs. `drift` is the part that consecutive runs share.
struct Noise {
  double run;
  double drift;
};

Noise usual_noise(const ComparisonRow& run) {
  return run.spec.device == DeviceKind::kCuda ? Noise{.run = 0.015, .drift = 0.01}
                                              : Noise{.run = 0.06, .drift = 0.04};
}

bool has_quartiles(const ComparisonRow& run) {
  return measured_steps(run) >= static_cast<double>(kLeastMeasuredSteps) &&
         run.step_time_ms_median && run.step_time_ms_p25.value_or(0) > 0 &&
         run.step_time_ms_p75.value_or(0) > 0;
}

bool has_few_repeats(const Series& row) {
  return figures_of(row, &AttemptSummary::tokens_per_second).size() < kLeastRepeats;
}

// True if the middle halves of the rows' step times, converted to speeds, overlap.
bool do_quartiles_overlap(const Series& row, const Series& other, auto figure) {
  const auto quartiles = [&](const ComparisonRow& run) {
    const double tokens = *(run.*figure) * *run.step_time_ms_median;
    return Interval{.low = tokens / *run.step_time_ms_p75, .high = tokens / *run.step_time_ms_p25};
  };
  if (!has_quartiles(row.median) || !has_quartiles(other.median)) return false;
  const Interval own = quartiles(row.median), others = quartiles(other.median);
  return own.low <= others.high && others.low <= own.high;
}

}  // namespace

std::optional<Estimate> estimate_of(const Series& row,
                                    std::optional<double> AttemptSummary::*figure) {
  const std::vector<double> speeds = figures_of(row, figure);
  if (speeds.empty() || (has_few_repeats(row) && !has_quartiles(row.median))) return std::nullopt;
  const auto count = static_cast<double>(speeds.size());
  double sum = 0;
  for (const double speed : speeds) sum += std::log(speed);
  const double mean = sum / count;
  double squares = 0;
  for (const double speed : speeds) squares += std::pow(std::log(speed) - mean, 2);
  const Noise usual = usual_noise(row.median);
  const int64_t freedom = kPriorFreedom + std::ssize(speeds) - 1;
  const double variance =
      (kPriorFreedom * usual.run * usual.run + squares) / static_cast<double>(freedom);
  return Estimate{.mean = mean,
                  .variance_of_mean = usual.drift * usual.drift + variance / count,
                  .freedom = freedom};
}

namespace {

// Returns the part of a row's tokens that is not padding. nullopt: not known.
std::optional<double> fill_of(const Series& row) {
  std::vector<double> fills;
  for (const ComparisonRow* run : row.runs) {
    const double fill = run->unpadded_tokens_per_second.value_or(0) /
                        run->tokens_per_second.value_or(std::numeric_limits<double>::infinity());
    if (run->status == RunStatus::kFinished && fill > 0 && fill <= 1) fills.push_back(fill);
  }
  return fills.empty() ? std::nullopt : std::optional(median(std::move(fills)));
}

// Returns the devices of finished runs. Unknown devices have an empty name.
std::set<std::string> devices_of(const Series& row) {
  std::set<std::string> devices;
  for (const ComparisonRow* run : row.runs) {
    if (is_finished(run)) devices.insert(run->device_name);
  }
  return devices;
}

bool differ_in_fill(const SeriesRows& rows) {
  std::vector<double> fills;
  for (const Series* row : rows) {
    const std::optional<double> fill = fill_of(*row);
    if (!fill) return false;
    fills.push_back(*fill);
  }
  if (fills.empty()) return false;
  const auto [least, most] = std::ranges::minmax(fills);
  return most - least > kEqualFill * most;
}

}  // namespace

double measured_steps(const ComparisonRow& run) {
  return static_cast<double>(run.steps.value_or(0)) -
         static_cast<double>(run.spec.train.warmup_steps_excluded);
}

bool was_disturbed(const ComparisonRow& run) {
  return run.cpu_time_others_percent.value_or(0) > kCpuTimeOthersPercentAllowed &&
         run.run_queue_wait_percent.value_or(0) > kRunQueueWaitPercentAllowed;
}

bool is_disturbed(const Series& row) {
  const auto disturbed = static_cast<size_t>(std::ranges::count_if(
      row.runs, [](auto* run) { return is_finished(run) && was_disturbed(*run); }));
  return disturbed > 0 && 2 * disturbed >= row.finished_count;
}

std::string doubt_of(const ComparisonRow& run) {
  if (run.status != RunStatus::kFinished || !run.step_time_ms_median) return "";
  if (was_disturbed(run)) return "a busy host";
  if (measured_steps(run) >= static_cast<double>(kLeastMeasuredSteps)) return "";
  const bool is_warmup = measured_steps(run) <= 0;
  const double steps = is_warmup ? static_cast<double>(run.steps.value_or(0)) : measured_steps(run);
  return fmt::format("{:.0f} step{}{}", steps, steps == 1 ? "" : "s",
                     is_warmup ? " of warm-up" : "");
}

std::string doubt_of(const Series& row) {
  if (is_disturbed(row)) return "a busy host";
  if (row.finished_count == 0 || !has_few_repeats(row)) return "";
  ComparisonRow median = row.median;
  median.status = RunStatus::kFinished;
  median.cpu_time_others_percent.reset();
  const std::string doubt = doubt_of(median);
  if (doubt.empty() || row.finished_count < 2) return doubt;
  return fmt::format("{} repeats of {}", row.finished_count, doubt);
}

size_t out_of_memory_count(const Series& row) {
  return static_cast<size_t>(
      std::ranges::count(row.runs, RunStatus::kOutOfMemory, &ComparisonRow::status));
}

bool fits(const Series& row) { return row.finished_count > 0 && out_of_memory_count(row) == 0; }

double speed_of(const Series& row) {
  const double speed = row.median.tokens_per_second.value_or(0);
  return std::isfinite(speed) && speed > 0 ? speed : 0;
}

bool is_speed_known(const Series& row) {
  return estimate_of(row, &AttemptSummary::tokens_per_second).has_value();
}

SeriesRows rows_that_fit(Rows rows) {
  return only(rows, [](const Series* row) { return fits(*row); });
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

SpeedComparison::SpeedComparison(Rows rows) : rows_(rows_that_fit(rows)) {
  std::erase_if(rows_, [](const Series* row) { return speed_of(*row) == 0; });
  do_rows_differ_in_filling_ = differ_in_fill(rows_);
  std::ranges::stable_sort(rows_, std::greater(), [](const Series* row) { return speed_of(*row); });
  const auto count = static_cast<double>(rows_.size());
  level_ = kChanceOfError / std::max(1.0, count * (count - 1) / 2);
}

bool SpeedComparison::is_noise(const Estimate& one, const Estimate& other) const {
  const auto [found, is_new] = least_squares_.try_emplace(one.freedom + other.freedom);
  if (is_new) {
    double low = 0, high = 1e9;
    for (double middle = 1; middle > low && middle < high; middle = std::midpoint(low, high)) {
      (student_tails(middle, found->first) < level_ ? high : low) = middle;
    }
    found->second = high * high;
  }
  const double difference = one.mean - other.mean;
  return difference * difference < found->second * (one.variance_of_mean + other.variance_of_mean);
}

Speed SpeedComparison::test(const Series& row, const Series& other, Figure figure) const {
  if (is_disturbed(row) || is_disturbed(other)) return Speed::kDisturbed;
  const std::optional<Estimate> own = estimate_of(row, figure);
  const std::optional<Estimate> others = estimate_of(other, figure);
  if (!own || !others) return Speed::kTooFewSteps;
  if (is_noise(*own, *others)) return Speed::kNoDifference;
  const bool is_of_steps = has_few_repeats(row) || has_few_repeats(other);
  if (is_of_steps && do_quartiles_overlap(row, other, figure)) return Speed::kNoDifference;
  // Reports show medians, so a sentence must not contradict them.
  const double of_medians = *(row.median.*figure) - *(other.median.*figure);
  const double difference = own->mean - others->mean;
  if (difference * of_medians <= 0) return Speed::kNoDifference;
  return difference > 0 ? Speed::kFaster : Speed::kSlower;
}

Speed SpeedComparison::against(const Series& row, const Series& other) const {
  if (devices_of(row) != devices_of(other)) return Speed::kOtherDevice;
  if (row.median.spec.model != other.median.spec.model) return Speed::kOtherModel;
  const Speed speed = test(row, other, &AttemptSummary::tokens_per_second);
  const bool is_difference = speed == Speed::kSlower || speed == Speed::kFaster;
  if (!is_difference || !do_rows_differ_in_filling_) return speed;
  const Speed without_filling = test(row, other, &AttemptSummary::unpadded_tokens_per_second);
  return without_filling == speed ? speed : Speed::kOtherFilling;
}

void put_speeds(std::deque<Series>& all, Rows shown_together) {
  const SpeedComparison speeds(shown_together);
  const std::set<const Series*> shown(shown_together.begin(), shown_together.end());
  for (Series& row : all) {
    const bool has_other_baseline = row.baseline != nullptr && row.baseline != &row;
    if (!has_other_baseline || !shown.contains(&row)) continue;
    if (!fits(row) || speed_of(row) == 0 || row.baseline->finished_count == 0) continue;
    row.against_baseline = speeds.against(row, *row.baseline);
  }
}

}  // namespace fsdp
