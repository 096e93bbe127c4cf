#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <utility>
#include <vector>

#include "trainer/contract/run_spec.h"
#include "trainer/contract/yaml_value.h"

namespace fsdp {

// Every key of a RunSpec that holds a value, dotted ("strategy.kind"), in the order of the struct.
const std::vector<std::string>& run_spec_keys();
// Whether one of them has this name and holds an integer, or optionally one.
bool is_integer_key(std::string_view key);
// Gives one of them the value that it has when nobody gives it one.
void set_to_default(RunSpec& spec, std::string_view key);

// One layer of overrides: read from YAML and checked once, then applied to any number of RunSpecs.
//
// Keys are nested ({strategy: {kind: ddp}}), dotted ({strategy.kind: ddp}) or mixed; null clears an
// optional. Some keys are alternatives: batch.total and batch.gradient_accumulation_steps,
// train.steps and train.epochs, model.source and model.config. A layer that gives one clears the
// other when it came from an earlier layer.
class Overrides {
 public:
  // Adds what `map` names. Throws ConfigError with place, key, what is wrong, what is allowed and
  // the nearest name: unknown or duplicate key, wrong type, out of range, both of two alternatives.
  void add(const YAML::Node& map, const YamlOrigin& origin);
  // Adds one key, of which `entry.path` is the dotted name.
  void add(const YamlEntry& entry);
  // Adds a whole specification, in which both of two alternatives may stand.
  void add_complete(const YAML::Node& map, const YamlOrigin& origin);

  void apply(RunSpec& spec) const;

  // Whether every key given here has the same value in `spec`.
  bool matches(const RunSpec& spec) const;

  // Where this layer gives `key` or the first key below it; empty when it does neither.
  std::string place(std::string_view key) const;

 private:
  struct Given {
    size_t key;
    std::string place;
    bool is_cleared;  // by null
  };

  void read_map(const YAML::Node& map, const YamlOrigin& origin, const std::string& prefix,
                const std::string& place);
  void read_entry(const YamlEntry& entry);
  void read_value_of(size_t key, const YamlEntry& entry);
  void settle_alternatives(const YamlEntry& entry);

  RunSpec values_;
  // By number of key: given here, or cleared because its alternative is.
  std::vector<bool> changed_ = std::vector<bool>(run_spec_keys().size());
  std::vector<Given> given_;
  bool is_complete_ = false;
};

}  // namespace fsdp
