#include <cmath>

#include "runner/report/column_values.h"
#include "runner/report/figures.h"

namespace fsdp {
namespace {

using enum Alignment;
using Run = ComparisonRow;

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

std::optional<Ratio> speed_ratio(const ReportRow& row) {
  return ratio_to_baseline(row, &AttemptSummary::tokens_per_second,
                           &Series::tokens_per_second_ratio);
}

std::optional<Ratio> step_time_ratio(const ReportRow& row) {
  return ratio_to_baseline(row, &AttemptSummary::step_time_ms_median, &Series::step_time_ratio);
}

std::optional<Ratio> memory_ratio(const ReportRow& row) {
  return ratio_to_baseline(row, &AttemptSummary::memory_allocated_bytes_max, nullptr);
}

constexpr const char* kLowEnd =
    "Low end of the 95 % interval of the series' ratio; of 3 or 4 repeats, here or in the "
    "baseline, "
    "the least ratio between two; absent below 3.";
constexpr const char* kHighEnd = "High end of it; of 3 or 4 repeats the greatest ratio.";

Value value_of(const std::optional<Ratio>& ratio) { return ratio ? Value(ratio->value) : Value(); }

// An end of the interval of a series' ratio.
auto interval_end(std::optional<Ratio> Series::*ratio, double Interval::*end) {
  return [ratio, end](const ReportRow& row) {
    const std::optional<Ratio>& of_series = row.series->*ratio;
    return of_series && of_series->interval ? Value((*of_series->interval).*end) : Value();
  };
}

std::string step_time(const ReportRow& row) {
  const ComparisonRow& run = *row.run;
  if (!run.step_time_ms_median) return "-";
  std::string text = three_digits(*run.step_time_ms_median);
  if (!run.step_time_ms_p25 || !run.step_time_ms_p75) return text;
  const double spread = *run.step_time_ms_p75 - *run.step_time_ms_p25;
  if (!std::isnan(spread)) text += " ±" + three_digits(spread);
  return text;
}

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

template <auto kFigure>
bool is_measured(const ReportRow& row) {
  return (row.run->*kFigure).has_value();
}

std::string energy(const ReportRow& row) {
  constexpr double kJoulesPerKilojoule = 1'000;
  if (!row.run->energy_joules) return "-";
  return three_digits(*row.run->energy_joules / kJoulesPerKilojoule);
}

std::vector<Column> memory_columns() {
  return {
      {"memory_allocated_bytes_max", "allocated\nGiB",
       "Peak allocated memory of the rank with most; for people least-most.", kRight,
       of(&Run::memory_allocated_bytes_max),
       [](auto& row) {
         return gibibytes(row.run->memory_allocated_bytes_min, row.run->memory_allocated_bytes_max);
       }},
      {"memory_allocated_bytes_min", "", "The same of the rank with least.", kRight,
       of(&Run::memory_allocated_bytes_min)},
      {"memory_reserved_bytes_max", "reserved\nGiB",
       "Peak reserved memory of the rank with most; for people least-most.", kRight,
       of(&Run::memory_reserved_bytes_max),
       [](auto& row) {
         return gibibytes(row.run->memory_reserved_bytes_min, row.run->memory_reserved_bytes_max);
       }},
      {"memory_reserved_bytes_min", "", "The same of the rank with least.", kRight,
       of(&Run::memory_reserved_bytes_min)},
      {"memory_allocated_bytes_forward_max", "",
       "Most memory allocated at the end of a step's last forward, of the rank with most.", kRight,
       of(&Run::memory_allocated_bytes_forward_max)},
      {"memory_allocated_bytes_forward_min", "", "The same of the rank with least.", kRight,
       of(&Run::memory_allocated_bytes_forward_min)},
      {"memory_reserved_bytes_forward_max", "",
       "Most memory reserved at the end of a step's last forward, of the rank with most.", kRight,
       of(&Run::memory_reserved_bytes_forward_max)},
  };
}

std::vector<Column> speed_columns() {
  return {
      {"step_time_ms_median", "step time\nms",
       "Median time of an optimizer step; for people ± interquartile range.", kRight,
       of(&Run::step_time_ms_median), step_time},
      {"step_time_ms_p25", "", "Lower quartile.", kRight, of(&Run::step_time_ms_p25)},
      {"step_time_ms_p75", "", "Upper quartile.", kRight, of(&Run::step_time_ms_p75)},
      {"communication_time_ms_median", "communication\nms",
       "Median time per step in which collectives were under way, of each step's slowest rank.",
       kRight, of(&Run::communication_time_ms_median),
       [](auto& row) { return three_digits(row.run->communication_time_ms_median); },
       is_measured<&Run::communication_time_ms_median>},
      {"steps_per_second", "steps/s", "1000 / step_time_ms_median.", kRight,
       of(&Run::steps_per_second),
       [](auto& row) { return three_digits(row.run->steps_per_second); }},
      {"micro_batches_per_second", "", "steps_per_second x gradient_accumulation_steps.", kRight,
       of(&Run::micro_batches_per_second)},
      {"tokens_per_second", "tokens/s", "Tokens of all ranks per second, at the median step time.",
       kRight, of(&Run::tokens_per_second),
       [](auto& row) { return three_digits(row.run->tokens_per_second); }},
      {"tokens_per_second_ratio", "tokens/s\nratio",
       "tokens_per_second / the baseline's median over its repeats; of rows that finished.", kRight,
       [](auto& row) { return value_of(speed_ratio(row)); },
       [](auto& row) { return ratio(speed_ratio(row)); }},
      {"tokens_per_second_ratio_low", "", kLowEnd, kRight,
       interval_end(&Series::tokens_per_second_ratio, &Interval::low)},
      {"tokens_per_second_ratio_high", "", kHighEnd, kRight,
       interval_end(&Series::tokens_per_second_ratio, &Interval::high)},
      {"step_time_ratio", "",
       "step_time_ms_median / the baseline's median over its repeats; of rows that finished.",
       kRight, [](auto& row) { return value_of(step_time_ratio(row)); },
       [](auto& row) { return ratio(step_time_ratio(row)); }},
      {"step_time_ratio_low", "", kLowEnd, kRight,
       interval_end(&Series::step_time_ratio, &Interval::low)},
      {"step_time_ratio_high", "", kHighEnd, kRight,
       interval_end(&Series::step_time_ratio, &Interval::high)},
      {"memory_allocated_ratio", "memory\nratio",
       "memory_allocated_bytes_max / the baseline's; of rows that finished.", kRight,
       [](auto& row) { return value_of(memory_ratio(row)); },
       [](auto& row) { return ratio(memory_ratio(row)); }},
  };
}

std::vector<Column> cost_columns() {
  return {
      {"total_time_ms", "total\ntime",
       "From the start of a rank's process to its last event, of the longest rank.", kRight,
       of(&Run::total_time_ms), [](auto& row) { return duration(row.run->total_time_ms); }},
      {"start_up_time_ms", "start-up\ntime",
       "From the start of rank 0's process to its first step.", kRight, of(&Run::start_up_time_ms),
       [](auto& row) { return duration(row.run->start_up_time_ms); }},
      {"training_time_ms", "", "total_time_ms - start_up_time_ms: from the first step on.", kRight,
       [](auto& row) { return to_value(training_time_ms(row)); }},
      {"gpu_hours", "GPU-\nhours", "ranks x total_time_ms, of a run on GPUs.", kRight,
       [](auto& row) { return to_value(gpu_hours(row)); },
       [](auto& row) { return three_digits(gpu_hours(row)); },
       [](auto& row) { return gpu_hours(row).has_value(); }},
      {"gpu_utilization_percent_mean", "GPU\n%",
       "Mean utilization of the run's own GPUs, over the device samples.", kRight,
       of(&Run::gpu_utilization_percent_mean),
       [](auto& row) { return three_digits(row.run->gpu_utilization_percent_mean); },
       is_measured<&Run::gpu_utilization_percent_mean>},
      {"cpu_utilization_percent_mean", "CPU\n%",
       "Mean utilization of the nodes' processors, over the device samples.", kRight,
       of(&Run::cpu_utilization_percent_mean),
       [](auto& row) { return three_digits(row.run->cpu_utilization_percent_mean); },
       is_measured<&Run::cpu_utilization_percent_mean>},
      {"energy_joules", "energy\nkJ", "Energy of the run's own GPUs, from their power samples.",
       kRight, of(&Run::energy_joules), energy, is_measured<&Run::energy_joules>},
  };
}

}  // namespace

std::vector<Column> figure_columns() {
  std::vector<Column> columns = memory_columns();
  for (const std::vector<Column>& more : {speed_columns(), cost_columns()}) {
    columns.insert(columns.end(), more.begin(), more.end());
  }
  return columns;
}

}  // namespace fsdp
