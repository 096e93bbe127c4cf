#include "runner/series/series.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runner/store/quantile.h"
#include "runner/table/names.h"

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

// Returns the run's figures in the order of AttemptSummary's members. A loss that is not finite is
// infinite, so no median hides it.
std::vector<std::optional<double>> figures_of_run(const ComparisonRow& run) {
  std::vector<std::optional<double>> figures;
  AttemptSummary::visit_fields(run, [&](const char* name, const auto& figure, auto&&...) {
    std::optional<double> value;
    if (figure) {
      value = static_cast<double>(*figure);
    } else if (is_measured_loss(run, name)) {
      value = std::numeric_limits<double>::infinity();
    }
    figures.push_back(value);
  });
  return figures;
}

// Sets each figure of `median_row` to its median over `runs`.
void put_medians(ComparisonRow& median_row, const Runs& runs) {
  std::vector<std::vector<std::optional<double>>> figures;
  for (const ComparisonRow* run : runs) figures.push_back(figures_of_run(*run));
  size_t place = 0;
  AttemptSummary::visit_fields(
      median_row, [&](const std::string_view name, auto& figure, auto&&...) {
        using Figure = typename std::decay_t<decltype(figure)>::value_type;
        std::vector<double> values;
        for (const auto& of_run : figures) {
          if (of_run[place]) values.push_back(*of_run[place]);
        }
        ++place;
        figure.reset();
        if (values.empty()) return;
        const bool is_loss = name.starts_with("loss_") || name.starts_with("validation_loss_");
        const double middle = median(std::move(values));
        if constexpr (std::is_integral_v<Figure>) {
          figure = whole(middle);
        } else if (!is_loss || std::isfinite(middle)) {
          figure = middle;
        }
      });
}

// Returns the runs from which figures are taken.
Runs counted_runs(const Series& series) {
  return series.finished_count == 0 ? series.runs : only(series.runs, is_finished);
}

void complete(Series& series) {
  series.finished_count = static_cast<size_t>(std::ranges::count_if(series.runs, is_finished));
  const Runs counted = counted_runs(series);
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
  const auto by_status = grouped(runs, [](auto* run) { return run->status; });
  if (by_status.size() == 1) return std::string(name_of(by_status.front().first));
  std::vector<std::string> texts;
  for (const auto& [status, alike] : by_status) {
    texts.push_back(fmt::format("{} {}", alike.size(), name_of(status)));
  }
  return joined_texts(texts, ", ");
}

const std::string& series_name(const ComparisonRow& run) {
  return run.series.empty() ? run.point : run.series;
}

bool is_finished(const ComparisonRow* run) { return run->status == RunStatus::kFinished; }

SeriesRows finished_rows(Rows rows) {
  return only(rows, [](const Series* series) { return series->finished_count > 0; });
}

Runs finished_runs(Rows rows) {
  Runs runs;
  for (const Series* series : rows) {
    std::ranges::copy_if(series->runs, std::back_inserter(runs),
                         [](auto* run) { return run->attempt && is_finished(run); });
  }
  return runs;
}

std::deque<Series> series_of(std::span<const ComparisonRow> runs) {
  std::deque<Series> all;
  const auto key = [](const ComparisonRow* run) {
    return std::pair<std::string_view, std::string_view>(run->experiment, series_name(*run));
  };
  const auto pointers = runs | std::views::transform([](auto& run) { return &run; });
  for (auto& [name, repeats] : grouped(pointers, key)) {
    all.emplace_back().runs = std::move(repeats);
    complete(all.back());
  }
  std::vector<Series*> series;
  for (Series& one : all) series.push_back(&one);
  for (const auto& [experiment, of_one] :
       grouped(series, [](auto* one) -> std::string_view { return one->median.experiment; })) {
    put_names(of_one);
  }
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
