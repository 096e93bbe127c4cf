#include "runner/report/series.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <type_traits>
#include <utility>

#include "runner/store/quantile.h"

namespace fsdp {
namespace {

// The nearest whole number that there is.
int64_t whole(double value) {
  constexpr double kAboveAll = 0x1p63;
  if (value >= kAboveAll) return std::numeric_limits<int64_t>::max();
  return value < -kAboveAll ? std::numeric_limits<int64_t>::min() : std::llround(value);
}

// Puts the medians over `runs` into each figure of `median`.
void put_medians(ComparisonRow& median_row, std::span<const ComparisonRow* const> runs) {
  std::vector<std::vector<double>> figures;
  for (const ComparisonRow* run : runs) {
    size_t field = 0;
    AttemptSummary::visit_fields(*run, [&](const char*, const auto& figure, auto&&...) {
      if (figures.size() == field) figures.emplace_back();
      if (figure) figures[field].push_back(static_cast<double>(*figure));
      ++field;
    });
  }
  size_t field = 0;
  AttemptSummary::visit_fields(median_row, [&](const char*, auto& figure, auto&&...) {
    using Figure = typename std::decay_t<decltype(figure)>::value_type;
    const std::vector<double>& values = figures[field++];
    figure.reset();
    if (values.empty()) return;
    if constexpr (std::is_integral_v<Figure>) {
      figure = whole(median(values));
    } else {
      figure = median(values);
    }
  });
}

// The runs that figures are taken from.
std::vector<const ComparisonRow*> counted_runs(const Series& series) {
  if (series.finished_count == 0) return series.runs;
  std::vector<const ComparisonRow*> finished;
  for (const ComparisonRow* run : series.runs) {
    if (run->status == RunStatus::kFinished) finished.push_back(run);
  }
  return finished;
}

void complete(Series& series) {
  series.finished_count = static_cast<size_t>(std::ranges::count_if(
      series.runs, [](auto* run) { return run->status == RunStatus::kFinished; }));
  const std::vector<const ComparisonRow*> counted = counted_runs(series);
  series.median = *counted.front();
  if (series.runs.size() == 1) return;
  series.median.point = series.median.series;
  const auto other = std::ranges::find_if(
      series.runs, [](auto* run) { return run->status != RunStatus::kFinished; });
  if (other != series.runs.end()) series.median.status = (*other)->status;
  put_medians(series.median, counted);
  series.median.skipped_lines = 0;
  for (const ComparisonRow* run : series.runs) series.median.skipped_lines += run->skipped_lines;
}

std::optional<Ratio> ratio_of(Bootstrap& bootstrap, const Series& series,
                              std::optional<double> AttemptSummary::*figure) {
  const std::vector<double> values = figures_of(series, figure);
  const std::vector<double> baseline = figures_of(*series.baseline, figure);
  if (values.empty() || baseline.empty()) return std::nullopt;
  if (&series == series.baseline) return Ratio{.value = 1};
  const Ratio ratio = bootstrap.ratio(values, baseline);
  return std::isfinite(ratio.value) ? std::optional(ratio) : std::nullopt;
}

}  // namespace

std::string Series::status_text() const {
  std::vector<std::pair<RunStatus, size_t>> counts;
  for (const ComparisonRow* run : runs) {
    const auto known = std::ranges::find(counts, run->status, &std::pair<RunStatus, size_t>::first);
    if (known == counts.end()) {
      counts.emplace_back(run->status, 1);
    } else {
      ++known->second;
    }
  }
  if (counts.size() == 1) return std::string(name_of(counts.front().first));
  std::string text;
  for (const auto& [status, count] : counts) {
    if (!text.empty()) text += ", ";
    text += std::to_string(count) + ' ' + std::string(name_of(status));
  }
  return text;
}

std::deque<Series> series_of(std::span<const ComparisonRow> runs) {
  std::deque<Series> all;
  std::map<std::pair<std::string_view, std::string_view>, Series*> known;
  for (const ComparisonRow& run : runs) {
    const std::string_view name = run.series.empty() ? run.point : run.series;
    Series*& series = known[{run.experiment, name}];
    if (series == nullptr) series = &all.emplace_back();
    series->runs.push_back(&run);
  }
  for (Series& series : all) complete(series);
  return all;
}

std::vector<double> figures_of(const Series& series,
                               std::optional<double> AttemptSummary::*figure) {
  std::vector<double> figures;
  for (const ComparisonRow* run : counted_runs(series)) {
    const std::optional<double>& known = run->*figure;
    if (known && *known > 0 && std::isfinite(*known)) figures.push_back(*known);
  }
  return figures;
}

void put_ratios(std::deque<Series>& all) {
  Bootstrap bootstrap;
  for (Series& series : all) {
    if (series.baseline == nullptr || series.finished_count == 0) continue;
    series.tokens_per_second_ratio =
        ratio_of(bootstrap, series, &AttemptSummary::tokens_per_second);
    series.step_time_ratio = ratio_of(bootstrap, series, &AttemptSummary::step_time_ms_median);
  }
}

}  // namespace fsdp
