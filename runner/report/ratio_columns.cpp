#include "runner/report/ratio_columns.h"

#include <cmath>

#include "runner/report/member_columns.h"
#include "runner/report/number_text.h"

namespace fsdp {
namespace {

using enum Alignment;

bool has_finished(const ReportRow& row) {
  return row.is_series ? row.series->finished_count > 0 : row.run->status == RunStatus::kFinished;
}

// Returns a row's figure divided by the baseline's. nullopt if the row has not finished. For a
// series it is the ratio of the medians, with its interval.
template <typename T>
std::optional<Ratio> ratio_to_baseline(const ReportRow& row,
                                       std::optional<T> AttemptSummary::*member,
                                       std::optional<Ratio> Series::*of_series) {
  if (row.is_series && of_series != nullptr) return row.series->*of_series;
  const Series* baseline = row.series->baseline;
  if (baseline == nullptr || !has_finished(row)) return std::nullopt;
  const std::optional<double> figure = row.run->*member;
  const std::optional<double> other = baseline->median.*member;
  if (!figure || !other || !std::isfinite(*figure / *other)) return std::nullopt;
  return Ratio{.value = *figure / *other};
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

// Returns a column with one end of the interval of a series' ratio.
Column end_column(const char* name, const char* documentation,
                  std::optional<Ratio> Series::*of_series, double Interval::*end) {
  return {name, "", documentation, kRight, [=](auto& row) {
            const std::optional<Ratio>& known = row.series->*of_series;
            return known && known->interval ? Value((*known->interval).*end) : Value();
          }};
}

constexpr const char* kLowEnd =
    "Low end of the 95 % interval of the series' ratio; of 3 or 4 repeats, here or in the "
    "baseline, the least ratio between two; absent below 3.";
constexpr const char* kHighEnd =
    "High end of the 95 % interval of the series' ratio; of 3 or 4 repeats, here or in the "
    "baseline, the greatest ratio between two; absent below 3.";

std::optional<double> efficiency(const ReportRow& row) {
  if (!has_finished(row)) return std::nullopt;
  return scaling_efficiency_percent(row.series->scaling, *row.run);
}

std::string efficiency_text(const ReportRow& row) {
  const std::optional<double> percent = efficiency(row);
  return percent ? whole_percent(*percent) : "-";
}

}  // namespace

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

std::vector<Column> scaling_columns() {
  return {
      {"scaling_efficiency_percent", "scaling\n%",
       "tokens_per_second_per_rank of the scaling_base's; of rows that finished. More is better.",
       kRight, [](auto& row) { return to_value(efficiency(row)); }, efficiency_text,
       [](auto& row) { return efficiency(row).has_value(); }},
      {"scaling_base", "",
       "The row with fewest ranks that differs in nothing but their number, and in what follows "
       "from it: accumulation or the total batch, steps, and from one rank the strategy.",
       kLeft,
       [](auto& row) {
         const std::optional<Scaling>& scaling = row.series->scaling;
         return scaling ? Value(scaling->base->median.point) : Value();
       }},
      {"scaling", "",
       "weak: the total batch grows with the ranks; strong: it stays; base: other rows' "
       "scaling_base.",
       kLeft,
       [](auto& row) {
         const std::optional<Scaling>& scaling = row.series->scaling;
         return scaling ? to_value(scaling->kind) : Value();
       }},
  };
}

}  // namespace fsdp
