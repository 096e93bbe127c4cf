#pragma once

#include <string>
#include <vector>

#include "trainer/contract/overrides.h"
#include "trainer/contract/yaml_value.h"

namespace fsdp {

// A key that a sweep varies, and its values.
struct SweepAxis {
  struct Value {
    std::string text;  // as written
    Overrides overrides;
  };
  std::string key;    // dotted
  std::string label;  // the key's last component, or all of it where that would be ambiguous
  std::vector<Value> values;
};

// The combinations that every point is run with.
struct Sweep {
  std::vector<SweepAxis> axes;
  // Each holds one value's number per axis. Without a sweep: one combination of nothing.
  std::vector<std::vector<size_t>> combinations = {{}};

  // " size_per_rank=2 every=0": what the combination adds to a point's name.
  std::string suffix(const std::vector<size_t>& combination) const;
};

// Reads the experiment's `sweep`. Throws ConfigError.
Sweep read_sweep(const YamlEntry& entry);

}  // namespace fsdp
