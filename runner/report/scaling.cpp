#include "runner/report/scaling.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "runner/report/row_spec.h"
#include "runner/report/series.h"
#include "runner/report/speeds.h"

namespace fsdp {
namespace {

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

void put_scaling(std::deque<Series>& all) {
  std::map<std::string, std::vector<BaseCandidate>> alike;
  for (Series& series : all) {
    std::optional<BaseCandidate> candidate = candidate_of(series);
    if (candidate) alike[candidate->without_strategy].push_back(std::move(*candidate));
  }
  for (const auto& [key, rows] : alike) {
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
