// Joins repeats to series, and computes their medians, ratios and scaling.
#include "runner/series/series.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <tuple>

#include "base/text/config_error.h"
#include "base/text/json.h"
#include "contract/spec/yaml_value.h"
#include "runner/series/speeds.h"
#include "runner/store/quantile.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

constexpr uint64_t kSeed = 20'261'121;
constexpr double kTail = 0.025;  // the part outside each end of a 95 % interval

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

void visit_figures(auto& run, const auto& visit) {
  AttemptSummary::visit_fields(run, visit);
  HeldTime::visit_fields(run.held, visit);
}

// Returns the run's figures in the order of visit_figures. A loss that is not finite is infinite,
// so no median hides it.
std::vector<std::optional<double>> figures_of_run(const ComparisonRow& run) {
  std::vector<std::optional<double>> figures;
  visit_figures(run, [&](const char* name, const auto& figure, auto&&...) {
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
  const auto figures = mapped(runs, [](const ComparisonRow* run) { return figures_of_run(*run); });
  size_t place = 0;
  visit_figures(median_row, [&](const std::string_view name, auto& figure, auto&&...) {
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
  // A series has finished only if all of its runs have.
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

std::vector<Series*> pointers_to(std::deque<Series>& all) {
  std::vector<Series*> pointers;
  for (Series& series : all) pointers.push_back(&series);
  return pointers;
}

// Sets the names of all series of one experiment.
void put_names(const std::vector<Series*>& all) {
  std::string_view shared = all.front()->median.point;
  for (const Series* series : all) {
    const auto end = std::ranges::mismatch(shared, series->median.point).in1;
    shared = shared.substr(0, static_cast<size_t>(end - shared.begin()));
  }
  // Leaves out whole words, never the beginning of a word.
  const size_t word_end = shared.rfind(' ');
  const bool has_words = all.size() > 1 && word_end != std::string_view::npos;
  const size_t left_out = has_words ? word_end + 1 : 0;
  for (Series* series : all) series->name = series->median.point.substr(left_out);
}

// --- the baseline of ratios ---

// How a name matches a series, best first.
enum class Match { kName, kRunOfIt, kBeginning, kNone };

Match match(const Series& series, const std::string& name) {
  const std::string& own = series.median.point;
  if (name.empty()) return Match::kNone;
  if (own == name) return Match::kName;
  if (std::ranges::count(series.runs, name, &ComparisonRow::point) > 0) return Match::kRunOfIt;
  return own.starts_with(name + ' ') ? Match::kBeginning : Match::kNone;
}

// Returns the series that matches best; the first one if several match equally. Null: none matches.
const Series* named_series(const std::vector<Series*>& all, const std::string& name) {
  const auto match_of = [&](const Series* series) { return match(*series, name); };
  const auto best = std::ranges::min_element(all, {}, match_of);
  return best == all.end() || match_of(*best) == Match::kNone ? nullptr : *best;
}

// --- scaling ---

// A row with a known speed.
struct BaseCandidate {
  Series* series;
  StrategySpec strategy;         // without the ranks
  std::string without_strategy;  // all other settings that the ranks do not decide
};

std::optional<BaseCandidate> candidate_of(Series& series) {
  const ComparisonRow& run = series.median;
  const bool is_measured = fits(series) && doubt_of(series).empty() &&
                           run.tokens_per_second_per_rank.value_or(0) > 0 &&
                           std::isfinite(*run.tokens_per_second_per_rank);
  if (!is_measured) return std::nullopt;
  RunSpec spec = run.spec;
  spec.strategy = {};
  spec.strategy.offload = run.spec.strategy.offload;
  spec.batch.total = spec.batch.gradient_accumulation_steps = std::nullopt;
  spec.train.steps = spec.train.sequences = spec.train.epochs = std::nullopt;
  spec.slurm = {};
  StrategySpec strategy = run.spec.strategy;
  strategy.ranks = 1;
  return BaseCandidate{&series, strategy,
                       run.experiment + '\n' + run.device_name + '\n' + json_text(spec)};
}

std::optional<ScalingKind> kind_of(const ComparisonRow& run, const ComparisonRow& base) {
  const BatchSpec &own = run.spec.batch, &of_base = base.spec.batch;
  if (run.spec.strategy.ranks <= base.spec.strategy.ranks) return std::nullopt;
  if (own.total == of_base.total) return ScalingKind::kStrong;
  const bool is_weak = own.gradient_accumulation_steps == of_base.gradient_accumulation_steps;
  return is_weak ? std::optional(ScalingKind::kWeak) : std::nullopt;
}

// Returns the scaling of a row. `others` differ from it at most in strategy and ranks.
std::optional<Scaling> scaling_of(const BaseCandidate& row,
                                  const std::vector<BaseCandidate>& others) {
  std::optional<Scaling> best;
  std::tuple<int64_t, bool, bool> order_of_best;
  for (const BaseCandidate& other : others) {
    const ComparisonRow& base = other.series->median;
    const auto kind = kind_of(row.series->median, base);
    const int64_t ranks = base.spec.strategy.ranks;
    const bool is_other_strategy = row.strategy != other.strategy;
    if (!kind || (ranks > 1 && is_other_strategy)) continue;
    // Fewest ranks first, then the same strategy, then the same total batch.
    const std::tuple order(ranks, is_other_strategy, kind != ScalingKind::kStrong);
    if (best && order_of_best <= order) continue;
    best = {.base = other.series, .kind = *kind};
    order_of_best = order;
  }
  return best;
}

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
  // The side with fewer repeats decides how sure the ratio is.
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

bool Series::has(const ComparisonRow* run) const { return is_among(runs, run); }

std::string Series::name_of_run(const ComparisonRow& run) const {
  const std::string left_out = median.point.substr(0, median.point.size() - name.size());
  return run.point.starts_with(left_out) ? run.point.substr(left_out.size()) : run.point;
}

std::string Series::status_text() const {
  const auto by_status = grouped(runs, [](auto* run) { return run->status; });
  if (by_status.size() == 1) return std::string(name_of(by_status.front().first));
  const auto text = [](const auto& alike) {
    return fmt::format("{} {}", alike.second.size(), name_of(alike.first));
  };
  return joined_texts(mapped(by_status, text), ", ");
}

const std::string& series_name(const ComparisonRow& run) {
  return run.series.empty() ? run.point : run.series;
}

bool is_finished(const ComparisonRow* run) { return run->status == RunStatus::kFinished; }

SeriesRows finished_rows(Rows rows) {
  return only(rows, [](const Series* series) { return series->finished_count > 0; });
}

Runs started_runs(Rows rows) {
  Runs runs;
  for (const Series* series : rows) {
    std::ranges::copy_if(series->runs, std::back_inserter(runs),
                         [](auto* run) { return run->attempt.has_value(); });
  }
  return runs;
}

Runs finished_runs(Rows rows) { return only(started_runs(rows), is_finished); }

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
  for (const auto& [experiment, of_one] :
       grouped(pointers_to(all),
               [](auto* one) -> std::string_view { return one->median.experiment; })) {
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
    if (!are_comparable(series, *series.baseline)) continue;
    series.tokens_per_second_ratio =
        ratio_of(bootstrap, series, &AttemptSummary::tokens_per_second);
    series.step_time_ratio = ratio_of(bootstrap, series, &AttemptSummary::step_time_ms_median);
  }
}

void put_baselines(std::deque<Series>& all, const std::string& name) {
  const std::vector<Series*> every = pointers_to(all);
  if (!name.empty() && !all.empty() && named_series(every, name) == nullptr) {
    throw ConfigError(
        "--baseline", "",
        "there is no point '" + name + "'" +
            suggestion(name, mapped(every, [](auto* one) { return one->median.point; })));
  }
  for (const auto& [experiment, of_experiment] :
       grouped(every, [](const Series* series) { return series->median.experiment; })) {
    const Series* named_elsewhere = named_series(of_experiment, name);
    for (const auto& [group, alike] :
         grouped(of_experiment, [](const Series* series) { return series->group; })) {
      const Series* baseline = named_series(alike, name);
      if (baseline == nullptr) baseline = named_elsewhere;
      const SeriesRows finished = finished_rows(SeriesRows(alike.begin(), alike.end()));
      if (baseline == nullptr && !finished.empty()) baseline = finished.front();
      for (Series* series : alike) series->baseline = baseline;
    }
  }
}

void put_scaling(std::deque<Series>& all) {
  std::vector<BaseCandidate> candidates;
  for (Series& series : all) {
    std::optional<BaseCandidate> candidate = candidate_of(series);
    if (candidate) candidates.push_back(std::move(*candidate));
  }
  for (const auto& [key, rows] : grouped(candidates, &BaseCandidate::without_strategy)) {
    for (const BaseCandidate& row : rows) row.series->scaling = scaling_of(row, rows);
    for (const BaseCandidate& row : rows) {
      const bool is_base = std::ranges::any_of(rows, [&](const BaseCandidate& other) {
        return other.series->scaling && other.series->scaling->base == row.series;
      });
      if (is_base && !row.series->scaling) row.series->scaling = {.base = row.series};
    }
  }
}

std::optional<double> scaling_efficiency_percent(const std::optional<Scaling>& scaling,
                                                 const ComparisonRow& run) {
  constexpr double kPercent = 100;
  if (!scaling || !run.tokens_per_second_per_rank) return std::nullopt;
  return kPercent * *run.tokens_per_second_per_rank /
         *scaling->base->median.tokens_per_second_per_rank;
}

}  // namespace fsdp
