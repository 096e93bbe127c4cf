#pragma once

#include <string>
#include <vector>

#include "contract/spec/overrides.h"
#include "contract/spec/yaml_value.h"

namespace fsdp {

// What a run must be for its combination to be left out: every key given has one of the values
// given for it.
class Exclusion {
 public:
  // Reads one map of a sweep's `exclude`. Throws ConfigError.
  explicit Exclusion(const YamlEntry& entry);

  bool matches(const std::string& point, const RunSpec& spec) const;

  const std::string& place() const { return place_; }
  // Throws ConfigError when it names a point that is none of `names`.
  void check_points(const std::vector<std::string>& names) const;

 private:
  struct NamedPoint {
    std::string name;
    std::string place;
  };

  void read_key(const YamlEntry& entry);

  std::string place_;
  std::vector<NamedPoint> points_;            // empty: any point
  std::vector<std::vector<Overrides>> keys_;  // per key: its values
};

}  // namespace fsdp
