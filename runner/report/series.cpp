#include "runner/report/series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "runner/report/member_columns.h"
#include "runner/store/quantile.h"

namespace fsdp {
namespace {

// Returns the nearest int64_t.
int64_t whole(double value) {
  constexpr double kAboveAll = 0x1p63;
  if (value >= kAboveAll) return std::numeric_limits<int64_t>::max();
  return value < -kAboveAll ? std::numeric_limits<int64_t>::min() : std::llround(value);
}

// True if the figure is a loss that the run measured.
bool is_measured_loss(const ComparisonRow& run, std::string_view figure) {
  if (figure.starts_with("loss_")) return run.has_losses();
  return figure.starts_with("validation_loss_") && run.has_validation_losses();
}

// Sets each figure of `median_row` to its median over `runs`. Losses that are not finite count as
// greater than all others, so no median hides them.
void put_medians(ComparisonRow& median_row, std::span<const ComparisonRow* const> runs) {
  size_t place = 0;
  AttemptSummary::visit_fields(median_row, [&](const char* name, auto& figure, auto&&...) {
    using Figure = typename std::decay_t<decltype(figure)>::value_type;
    std::vector<double> values;
    bool has_infinite = false;
    for (const ComparisonRow* run : runs) {
      const auto value = number_of(value_at<AttemptSummary>(*run, place));
      if (value) {
        values.push_back(*value);
      } else if (is_measured_loss(*run, name)) {
        values.push_back(std::numeric_limits<double>::infinity());
        has_infinite = true;
      }
    }
    ++place;
    figure.reset();
    if (values.empty()) return;
    if constexpr (std::is_integral_v<Figure>) {
      figure = whole(median(values));
    } else if (const double middle = median(values); !has_infinite || std::isfinite(middle)) {
      figure = middle;
    }
  });
}

bool is_finished(const ComparisonRow* run) { return run->status == RunStatus::kFinished; }

// Returns the runs from which figures are taken.
std::vector<const ComparisonRow*> counted_runs(const Series& series) {
  if (series.finished_count == 0) return series.runs;
  std::vector<const ComparisonRow*> finished;
  std::ranges::copy_if(series.runs, std::back_inserter(finished), is_finished);
  return finished;
}

void complete(Series& series) {
  series.finished_count = static_cast<size_t>(std::ranges::count_if(series.runs, is_finished));
  const std::vector<const ComparisonRow*> counted = counted_runs(series);
  series.median = *counted.front();
  if (series.runs.size() == 1) return;
  series.median.point = series.median.series;
  const auto other = std::ranges::find_if_not(series.runs, is_finished);
  if (other != series.runs.end()) series.median.status = (*other)->status;
  put_medians(series.median, counted);
  double skipped_lines = 0;
  for (const ComparisonRow* run : series.runs) {
    skipped_lines += static_cast<double>(run->skipped_lines);
  }
  series.median.skipped_lines = whole(skipped_lines);
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

// Sets the names of all series of one experiment.
void put_names(const std::vector<Series*>& all) {
  std::string_view shared = all.front()->median.point;
  for (const Series* series : all) {
    const auto end = std::ranges::mismatch(shared, series->median.point).in1;
    shared = shared.substr(0, static_cast<size_t>(end - shared.begin()));
  }
  const size_t word_end = shared.rfind(' ');
  const bool has_words = all.size() > 1 && word_end != std::string_view::npos;
  const size_t left_out = has_words ? word_end + 1 : 0;
  for (Series* series : all) series->name = series->median.point.substr(left_out);
}

}  // namespace

bool Series::has(const ComparisonRow* run) const {
  return std::ranges::find(runs, run) != runs.end();
}

std::string Series::name_of_run(const ComparisonRow& run) const {
  const std::string left_out = median.point.substr(0, median.point.size() - name.size());
  return run.point.starts_with(left_out) ? run.point.substr(left_out.size()) : run.point;
}

std::string Series::status_text() const {
  std::vector<RunStatus> known;
  std::vector<std::string> texts;
  for (const ComparisonRow* run : runs) {
    if (std::ranges::find(known, run->status) != known.end()) continue;
    known.push_back(run->status);
    const auto count = std::ranges::count(runs, run->status, &ComparisonRow::status);
    texts.push_back(fmt::format("{} {}", count, name_of(run->status)));
  }
  if (known.size() == 1) return std::string(name_of(known.front()));
  return fmt::format("{}", fmt::join(texts, ", "));
}

const std::string& series_name(const ComparisonRow& run) {
  return run.series.empty() ? run.point : run.series;
}

std::deque<Series> series_of(std::span<const ComparisonRow> runs) {
  std::deque<Series> all;
  std::map<std::pair<std::string_view, std::string_view>, Series*> known;
  for (const ComparisonRow& run : runs) {
    Series*& series = known[{run.experiment, series_name(run)}];
    if (series == nullptr) series = &all.emplace_back();
    series->runs.push_back(&run);
  }
  std::map<std::string_view, std::vector<Series*>> of_experiments;
  for (Series& series : all) {
    complete(series);
    of_experiments[series.median.experiment].push_back(&series);
  }
  for (const auto& [experiment, of_one] : of_experiments) put_names(of_one);
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
