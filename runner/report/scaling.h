#pragma once

#include <deque>
#include <optional>

#include "contract/text/fields.h"
#include "runner/store/comparison.h"

// What more ranks bring: a row against the one that differs in nothing but their number. Pure.
namespace fsdp {

struct Series;

// weak: each rank does what it does on one, so the total batch grows with the ranks. strong: the
// total batch stays, and each rank accumulates fewer micro-batches.
enum class ScalingKind { kBase, kWeak, kStrong };
constexpr auto enum_names(ScalingKind) { return std::array{"base"sv, "weak"sv, "strong"sv}; }

struct Scaling {
  const Series* base = nullptr;  // of kBase the row itself
  ScalingKind kind = ScalingKind::kBase;
};

// Fills in Series::scaling of rows that finished and whose speed is known. The base is the row of
// the same experiment and device with fewest ranks whose specification is the same but for the
// ranks, and for what follows from them: accumulation or the total batch, steps, what a queue is
// asked for, and of a base of one rank the strategy, as nothing is sharded there, but not offload.
// Of several the one with the same strategy, then with the same total batch, then the first. A row
// that is only the base of others is kBase.
void put_scaling(std::deque<Series>& all);

// tokens_per_second_per_rank of a run of the series, or of its medians, in percent of the base's.
std::optional<double> scaling_efficiency_percent(const std::optional<Scaling>& scaling,
                                                 const ComparisonRow& run);

}  // namespace fsdp
