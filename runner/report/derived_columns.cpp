#include <cmath>

#include "runner/report/column_parts.h"
#include "runner/report/member_columns.h"
#include "runner/report/number_text.h"

// Columns that are computed from several figures.
namespace fsdp {
namespace {

using enum Alignment;

std::string repeats(const ReportRow& row) {
  const std::string all = std::to_string(row.series->runs.size());
  if (row.series->finished_count == row.series->runs.size()) return all;
  return std::to_string(row.series->finished_count) + " of " + all;
}

std::vector<Column> repeats_columns() {
  return {{"repeats", "repeats", "Runs of the series; for people: that finished, of all.", kRight,
           [](auto& row) { return to_value(static_cast<int64_t>(row.series->runs.size())); },
           repeats, [](auto& row) { return row.series->runs.size() > 1; }}};
}

// --- ratios ---

bool has_finished(const ReportRow& row) {
  return row.is_series ? row.series->finished_count > 0 : row.run->status == RunStatus::kFinished;
}

// A row's figure divided by the baseline's, of what finished; of a series the ratio of the medians,
// with its interval.
template <typename T>
std::optional<Ratio> ratio_to_baseline(const ReportRow& row,
                                       std::optional<T> AttemptSummary::*member,
                                       std::optional<Ratio> Series::*of_series) {
  if (row.is_series && of_series != nullptr) return row.series->*of_series;
  const Series* baseline = row.series->baseline;
  if (baseline == nullptr || !has_finished(row) || !(row.run->*member) ||
      !(baseline->median.*member)) {
    return std::nullopt;
  }
  const auto denominator = static_cast<double>(*(baseline->median.*member));
  const Ratio ratio{.value = static_cast<double>(*(row.run->*member)) / denominator};
  return std::isfinite(ratio.value) ? std::optional(ratio) : std::nullopt;
}

template <typename T>
Column ratio_column(const char* name, const char* heading, const char* documentation,
                    std::optional<T> AttemptSummary::*member,
                    std::optional<Ratio> Series::*of_series) {
  const auto of_row = [=](const ReportRow& row) {
    return ratio_to_baseline(row, member, of_series);
  };
  return {name,
          heading,
          documentation,
          kRight,
          [=](auto& row) {
            const std::optional<Ratio> known = of_row(row);
            return known ? Value(known->value) : Value();
          },
          [=](auto& row) { return ratio(of_row(row)); }};
}

// An end of the interval of a series' ratio.
Column end_column(const char* name, const char* documentation,
                  std::optional<Ratio> Series::*of_series, double Interval::*end) {
  return {name, "", documentation, kRight, [=](auto& row) {
            const std::optional<Ratio>& known = row.series->*of_series;
            return known && known->interval ? Value((*known->interval).*end) : Value();
          }};
}

constexpr const char* kLowEnd =
    "Low end of the 95 % interval of the series' ratio; of 3 or 4 repeats, here or in the "
    "baseline, "
    "the least ratio between two; absent below 3.";
constexpr const char* kHighEnd =
    "High end of the 95 % interval of the series' ratio; of 3 or 4 repeats, here or in the "
    "baseline, the greatest ratio between two; absent below 3.";

std::vector<Column> ratio_columns() {
  constexpr auto kTokensRatio = &Series::tokens_per_second_ratio;
  constexpr auto kStepTimeRatio = &Series::step_time_ratio;
  return {
      ratio_column(
          "tokens_per_second_ratio", "tokens/s\nratio",
          "tokens_per_second / the baseline's median over its repeats; of rows that finished.",
          &AttemptSummary::tokens_per_second, kTokensRatio),
      end_column("tokens_per_second_ratio_low", kLowEnd, kTokensRatio, &Interval::low),
      end_column("tokens_per_second_ratio_high", kHighEnd, kTokensRatio, &Interval::high),
      ratio_column(
          "step_time_ratio", "",
          "step_time_ms_median / the baseline's median over its repeats; of rows that finished.",
          &AttemptSummary::step_time_ms_median, kStepTimeRatio),
      end_column("step_time_ratio_low", kLowEnd, kStepTimeRatio, &Interval::low),
      end_column("step_time_ratio_high", kHighEnd, kStepTimeRatio, &Interval::high),
      ratio_column("memory_allocated_ratio", "memory\nratio",
                   "memory_allocated_bytes_max / the baseline's; of rows that finished.",
                   &AttemptSummary::memory_allocated_bytes_max, nullptr),
  };
}

// --- cost ---

std::optional<double> training_time_ms(const ReportRow& row) {
  if (!row.run->total_time_ms || !row.run->start_up_time_ms) return std::nullopt;
  return static_cast<double>(*row.run->total_time_ms) - *row.run->start_up_time_ms;
}

// GPUs times the time they were held; absent on the CPU.
std::optional<double> gpu_hours(const ReportRow& row) {
  constexpr double kMillisecondsPerHour = 3'600'000;
  if (row.run->device != DeviceKind::kCuda || !row.run->total_time_ms) return std::nullopt;
  return static_cast<double>(row.run->ranks) * static_cast<double>(*row.run->total_time_ms) /
         kMillisecondsPerHour;
}

std::vector<Column> cost_columns() {
  return {
      {"training_time_ms", "", "total_time_ms - start_up_time_ms: from the first step on.", kRight,
       [](auto& row) { return to_value(training_time_ms(row)); }},
      {"gpu_hours",
       "GPU-\nhours",
       "ranks x total_time_ms, of a run on GPUs.",
       kRight,
       [](auto& row) { return to_value(gpu_hours(row)); },
       {},
       [](auto& row) { return gpu_hours(row).has_value(); }},
  };
}

}  // namespace

std::vector<DerivedColumns> derived_columns() {
  return {{"repeat", repeats_columns()},
          {"tokens_per_second", ratio_columns()},
          {"start_up_time_ms", cost_columns()}};
}

}  // namespace fsdp
