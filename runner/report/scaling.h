#pragma once

#include <deque>
#include <optional>

#include "contract/text/fields.h"
#include "runner/store/comparison.h"

// Compares a row with the one that differs in nothing but the number of ranks. Pure.
namespace fsdp {

struct Series;

// weak: each rank does the same work; the total batch grows with the ranks. strong: the total batch
// is constant; each rank accumulates fewer micro-batches.
enum class ScalingKind { kBase, kWeak, kStrong };
constexpr auto enum_names(ScalingKind) { return std::array{"base"sv, "weak"sv, "strong"sv}; }

struct Scaling {
  const Series* base = nullptr;  // if kBase, the row itself
  ScalingKind kind = ScalingKind::kBase;
};

// Sets Series::scaling of rows that finished and have a known speed. The base is the row of the
// same experiment and device with fewest ranks and an otherwise equal specification. It may differ
// in keys that follow from the ranks: accumulation or the total batch, steps, and the options of
// Slurm. A base of one rank may also differ in the strategy, because nothing is sharded, but not in
// offload. If several rows qualify, rows with the same strategy come first, then those with the
// same total batch, then the first. A row that is only a base of others is kBase.
void put_scaling(std::deque<Series>& all);

// Returns tokens_per_second_per_rank of a run, or of a series' medians, in percent of the base's.
std::optional<double> scaling_efficiency_percent(const std::optional<Scaling>& scaling,
                                                 const ComparisonRow& run);

}  // namespace fsdp
