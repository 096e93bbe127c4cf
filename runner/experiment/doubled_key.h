#pragma once

#include <cstdint>
#include <string>

#include "contract/spec/overrides.h"
#include "contract/spec/yaml_value.h"
#include "runner/experiment/doubling.h"

namespace fsdp {

// The integer key of a run's specification that a sweep doubles.
struct DoubledKey {
  std::string key;    // dotted
  std::string label;  // the key's last component, or all of it where that would be ambiguous
  std::string place;  // of its range
  DoublingRange range;

  // The layer that gives the key this value. Throws ConfigError when it may not have it.
  Overrides with(int64_t value) const;
  // " size_per_rank=8": what the value adds to a run's name.
  std::string suffix(int64_t value) const;
};

// Reads a sweep's `double`. Throws ConfigError.
DoubledKey read_doubled_key(const YamlEntry& entry);

}  // namespace fsdp
