#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runner/plan/planner.h"

// Each key's share of the difference between two planned runs.
namespace fsdp {

// The planned figures of a run. A time is nullopt if it is not calibrated.
struct PlannedFigures {
  double memory_bytes = 0;
  std::optional<double> time_ms{};
};

struct KeyShare {
  std::string keys;  // "batch.size_per_rank"; keys that only change together are joined by ", "
  PlannedFigures share{};
};

// Divides the change from the baseline to the run among the keys that differ. A key's share is the
// mean of its changes over all orders of changing one key after the other (L. S. Shapley: A value
// for n-person games, 1953). The shares add up to the whole change. Beyond 5 keys, takes a fixed
// sample of the orders. `figures_of` gives the figures of a run with a set of changed keys. Bit i
// of the set stands for keys[i]. nullopt: this run cannot be planned, and orders with it do not
// count. Returns nullopt if no order is left.
std::optional<std::vector<KeyShare>> shares_of(
    const std::vector<std::string>& keys,
    const std::function<std::optional<PlannedFigures>(uint32_t set)>& figures_of);

// "by key, as planned: strategy.kind, strategy.ranks -0.05 GiB; batch.size_per_rank +0.04 GiB".
// Empty if there are no shares.
std::string key_shares_text(const std::vector<KeyShare>& shares);

// Returns the text about the keys in which two specifications differ. Paths are left out, and so
// are keys with the effect kHowOnly. Empty if fewer than two keys are left.
std::string key_shares_text(ExperimentPlans& plans, const RunSpec& run, const RunSpec& baseline);

}  // namespace fsdp
