// Describes where two runs differ, from the pairs that do. It does not decide which do.
#include "runner/diverge/findings.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace fsdp {
namespace {

// Returns the share of the rows before which no row differs; nullopt: they differ from the begin.
std::optional<double> first_segment(const Pairs& differing, double most) {
  size_t first = kProjections;
  for (const Pair& pair : differing) {
    const double scale = most * pair.norm() / std::sqrt(static_cast<double>(kProjections));
    for (size_t k = 0; k < first; ++k) {
      const double apart = pair.one->sums.projections[k] - pair.other->sums.projections[k];
      if (std::abs(apart) > scale) first = k;
    }
  }
  if (first == 0 || first == kProjections) return std::nullopt;
  return static_cast<double>(first) / kProjections;
}

// Adds the rows that differ. If these are all the rows of some ranks of a run, those ranks are the
// cause. If both runs have such ranks, either run may be wrong.
void add_rows(const StepOfRun& one, const StepOfRun& other, const Pairs& differing,
              FirstDifference& found) {
  for (const Pair& pair : differing) {
    found.rows.push_back(one.step.rows.at(pair.one->row).number);
  }
  std::ranges::sort(found.rows);
  for (const StepOfRun* run : {&one, &other}) {
    const int64_t all_ranks = run->step.begin.ranks;
    std::set<int64_t> ranks;
    for (const Pair& pair : differing) ranks.insert(run->step.rows.at(pair.one->row).rank);
    const bool are_all_rows = found.differing * all_ranks == found.compared * std::ssize(ranks);
    if (std::ssize(ranks) == all_ranks || !are_all_rows) continue;
    const std::vector<int64_t> numbers(ranks.begin(), ranks.end());
    const bool has_other_suspect = found.cause == Cause::kOneRank;
    found.cause = Cause::kOneRank;
    found.at_fault = has_other_suspect ? "" : run->run;
    found.ranks = !has_other_suspect || found.ranks == numbers ? numbers : std::vector<int64_t>();
  }
}

}  // namespace

bool is_rounding(const FirstDifference& found) {
  return found.relative < 0.01 && found.cosine.value_or(0) > 0.9995;
}

FirstDifference described(const StepOfRun& one_run, const StepOfRun& other_run, const Pair& pair,
                          Cause cause, double size, double unit) {
  const Sums& one = pair.one->sums;
  const Sums& other = pair.other->sums;
  FirstDifference found{.of = pair.other->of,
                        .name = pair.other->name,
                        .state = pair.other->state,
                        .cause = cause,
                        .relative = size,
                        .in_rounding = size / unit};
  if (one.is_finite != other.is_finite) {
    found.cause = Cause::kNotFinite;
    found.at_fault = one.is_finite ? other_run.run : one_run.run;
  } else {
    found.cosine = cosine(one, other);
    found.ratio = ratio_of(one, other);
  }
  return found;
}

std::optional<FirstDifference> disagreement(const StepOfRun& run, Quantity of, Cause cause,
                                            double unit) {
  const auto each = std::ranges::find_if(
      run.step.computed, [&](const Computed& one) { return one.of == of && one.disagreement; });
  if (each == run.step.computed.end()) return std::nullopt;
  const auto& [rank, other_rank, sums, other_sums] = *each->disagreement;
  Computed one = *each;
  Computed other = *each;
  one.sums = sums;
  other.sums = other_sums;
  const Pair pair{&one, &other};
  FirstDifference found = described(run, run, pair, cause, pair.size(), unit);
  found.at_fault = run.run;
  found.ranks = {rank, other_rank};
  return found;
}

std::optional<FirstDifference> rows_apart(const StepOfRun& one, const StepOfRun& other,
                                          const Pairs& module, double most, double unit) {
  Pairs differing;
  std::ranges::copy_if(module, std::back_inserter(differing),
                       [&](const Pair& pair) { return pair.size() > most; });
  if (differing.empty()) return std::nullopt;
  const Pair largest = *std::ranges::max_element(differing, {}, &Pair::size);
  FirstDifference found = described(one, other, largest, Cause::kComputation, largest.size(), unit);
  found.differing = std::ssize(differing);
  found.compared = std::ssize(module);
  if (found.cause == Cause::kNotFinite) return found;
  if (differing.size() < module.size()) add_rows(one, other, differing, found);
  found.from_position = first_segment(differing, most);
  if (found.cause == Cause::kOneRank) return found;
  if (found.from_position) {
    found.cause = Cause::kPositions;
  } else if (found.ratio) {
    found.cause = Cause::kFactor;
  } else if (is_rounding(found)) {
    found.cause = Cause::kPrecision;
  }
  return found;
}

}  // namespace fsdp
