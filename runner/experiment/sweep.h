#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "contract/spec/overrides.h"
#include "contract/spec/yaml_value.h"

namespace fsdp {

// The largest number of runs in an experiment.
inline constexpr size_t kMaximumRuns = 100'000;

// A key and one of the values that a sweep gives it.
struct SweepValue {
  std::string key;    // dotted
  std::string label;  // the key's last component, or the whole key if ambiguous
  std::string text;   // as written
  std::string place;
  Overrides overrides{};
};

// Indices of SweepBlock::values, from the outermost value to the innermost.
using Combination = std::vector<size_t>;

// A rule that leaves out runs. It matches a run that has, for every key of the rule, a listed
// value.
class Exclusion {
 public:
  // Reads one map of a sweep's `exclude`. Throws ConfigError.
  explicit Exclusion(const YamlEntry& entry);

  bool matches(const std::string& point, const RunSpec& spec) const;

  const std::string& place() const { return place_; }
  // Throws ConfigError if the rule names a point that is not in `names`.
  void check_points(const std::vector<std::string>& names) const;

 private:
  void read_key(const YamlEntry& entry);

  std::string place_;
  std::map<std::string, std::string> points_;  // with their places; empty: any point
  std::vector<std::vector<Overrides>> keys_;   // per key: its values
};

struct DoublingRange {
  int64_t from = 1;
  std::optional<int64_t> to;  // the largest to try; absent: until one does not fit
  bool refine = false;        // bisect down to neighbouring valid values
};

// The integer key of a run's specification that a sweep doubles.
struct DoubledKey {
  std::string key;    // dotted
  std::string label;  // as in SweepValue
  std::string place;  // of its range
  DoublingRange range;

  // The layer that gives the key this value. Throws ConfigError if the value is not allowed.
  Overrides with(int64_t value) const;
  // " size_per_rank=8": what the value adds to a run's name.
  std::string suffix(int64_t value) const;
};

struct Repeats {
  int64_t count = 1;
  bool change_seed = false;  // the repeat's number is added to train.seed
};

// One block of a sweep: the combinations that every point is run with, each `repeats.count` times.
struct SweepBlock {
  std::string place{};
  std::vector<SweepValue> values{};
  // In the order of the runs. A block without values has one empty combination.
  std::vector<Combination> combinations = {{}};
  std::vector<Exclusion> exclusions{};
  Repeats repeats{};
  std::optional<DoubledKey> doubled{};  // each combination is run with several values of this key

  // " size_per_rank=2 every=0": what the combination adds to a point's name.
  std::string suffix(const Combination& combination) const;
  // The place of the combination's innermost value, or else of the block.
  const std::string& place_of(const Combination& combination) const;
};

// Blocks whose runs follow each other in this order.
using SweepBlocks = std::vector<SweepBlock>;

// Reads a `sweep`: one block or a list of them. Throws ConfigError.
//
// To add a form of a sweep: add a branch to read_block in runner/experiment/sweep.cpp, and its key
// to runner/experiment/experiment_keys.cpp and runner/experiment/schema_frame.json. Malformed ones
// are in tests/runner/experiment/corpus/.
SweepBlocks read_sweep(const YamlEntry& entry);

// Returns a list's items, each as a value of the list's key. Throws ConfigError if there are none.
// `one` names an allowed item, such as "value".
std::vector<YamlEntry> items_of(const YamlEntry& list, const std::string& one);

}  // namespace fsdp
