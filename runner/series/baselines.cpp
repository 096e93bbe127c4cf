#include <algorithm>
#include <cmath>
#include <tuple>

#include "contract/spec/yaml_value.h"
#include "contract/text/config_error.h"
#include "runner/series/run_keys.h"
#include "runner/series/series.h"
#include "runner/series/speeds.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

// --- the baseline of ratios ---

// The way in which a name matches a series. The smallest one is preferred.
enum class Match { kName, kRunOfIt, kBeginning, kNone };

Match match(const Series& series, const std::string& name) {
  const std::string& own = series.median.point;
  if (name.empty()) return Match::kNone;
  if (own == name) return Match::kName;
  if (std::ranges::count(series.runs, name, &ComparisonRow::point) > 0) return Match::kRunOfIt;
  return own.starts_with(name + ' ') ? Match::kBeginning : Match::kNone;
}

// Returns the series that matches best, the first of several. Null: none matches.
template <typename All, typename MatchOf>
const Series* best_match(const All& all, MatchOf match_of) {
  const auto best = std::ranges::min_element(all, {}, match_of);
  return best == all.end() || match_of(*best) == Match::kNone ? nullptr : *best;
}

// --- the row with fewest ranks ---

using nlohmann::json;

// A row with a known speed, and its specification without the ranks.
struct BaseCandidate {
  Series* series;
  std::string specification;
  std::string without_strategy;
};

const JsonPointers& what_ranks_decide() {
  static const JsonPointers kPlaces = [] {
    JsonPointers places;
    for (const char* key : {"/strategy/ranks", "/batch/total", "/batch/gradient_accumulation_steps",
                            "/train/steps", "/train/sequences", "/train/epochs", "/slurm"}) {
      places.emplace_back(key);
    }
    return places;
  }();
  return kPlaces;
}

std::optional<BaseCandidate> candidate_of(Series& series) {
  const ComparisonRow& run = series.median;
  const bool is_measured = fits(series) && run.tokens_per_second_per_rank.value_or(0) > 0 &&
                           std::isfinite(*run.tokens_per_second_per_rank);
  json spec = without(row_spec(run), what_ranks_decide());
  if (!is_measured || spec.is_null()) return std::nullopt;
  const std::string device = run.experiment + '\n' + run.device_name + '\n';
  const std::string specification = device + spec.dump();
  spec["strategy"] = text_of_spec(run, "/strategy/offload");
  return BaseCandidate{&series, specification, device + spec.dump()};
}

std::optional<ScalingKind> kind_of(const ComparisonRow& run, const ComparisonRow& base) {
  if (run.ranks <= base.ranks) return std::nullopt;
  if (run.total_batch == base.total_batch) return ScalingKind::kStrong;
  const bool is_weak = run.gradient_accumulation_steps == base.gradient_accumulation_steps;
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
    const bool is_other_strategy = row.specification != other.specification;
    if (!kind || (base.ranks > 1 && is_other_strategy)) continue;
    const std::tuple order(base.ranks, is_other_strategy, kind != ScalingKind::kStrong);
    if (best && order_of_best <= order) continue;
    best = {.base = other.series, .kind = *kind};
    order_of_best = order;
  }
  return best;
}

}  // namespace

void put_baselines(std::deque<Series>& all, const std::string& name) {
  std::vector<Series*> every;
  std::vector<std::string> names;
  for (Series& series : all) {
    every.push_back(&series);
    names.push_back(series.median.point);
  }
  const auto named = [&](const Series* series) { return match(*series, name); };
  const auto finished = [](const Series* series) {
    return series->finished_count > 0 ? Match::kName : Match::kNone;
  };
  if (!name.empty() && !all.empty() && best_match(every, named) == nullptr) {
    throw ConfigError("--baseline", "",
                      "there is no point '" + name + "'" + suggestion(name, names));
  }
  for (const auto& [experiment, of_experiment] :
       grouped(every, [](const Series* series) { return series->median.experiment; })) {
    const Series* named_elsewhere = best_match(of_experiment, named);
    for (const auto& [group, alike] :
         grouped(of_experiment, [](const Series* series) { return series->group; })) {
      const Series* baseline = best_match(alike, named);
      if (baseline == nullptr) baseline = named_elsewhere;
      if (baseline == nullptr) baseline = best_match(alike, finished);
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
