#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "contract/spec/overrides.h"
#include "contract/spec/yaml_value.h"
#include "runner/experiment/doubled_key.h"
#include "runner/experiment/exclusion.h"

namespace fsdp {

// The most runs of an experiment.
inline constexpr size_t kMaximumRuns = 100'000;

// A key and one of the values that a sweep gives it.
struct SweepValue {
  std::string key;    // dotted
  std::string label;  // the key's last component, or all of it where that would be ambiguous
  std::string text;   // as written
  std::string place;
  Overrides overrides;
};

// Numbers of a block's values, outer to inner.
using Combination = std::vector<size_t>;

struct Repeats {
  int64_t count = 1;
  bool change_seed = false;  // the repeat's number is added to train.seed
};

// One block of a sweep: the combinations that every point is run with, each `repeats.count` times.
struct SweepBlock {
  std::string place;
  std::vector<SweepValue> values;
  // In the order of the runs. Without any form that gives values: one combination of nothing.
  std::vector<Combination> combinations = {{}};
  std::vector<Exclusion> exclusions;
  Repeats repeats;
  std::optional<DoubledKey> doubled;  // each combination is run with several values of it

  // " size_per_rank=2 every=0": what the combination adds to a point's name.
  std::string suffix(const Combination& combination) const;
  // Where the combination's innermost value was written, else where the block was.
  const std::string& place_of(const Combination& combination) const;
};

// Blocks, whose runs are joined in this order.
using SweepBlocks = std::vector<SweepBlock>;

// Reads a `sweep`: one block or a list of them. Throws ConfigError.
SweepBlocks read_sweep(const YamlEntry& entry);

}  // namespace fsdp
