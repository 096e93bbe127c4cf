#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <utility>
#include <vector>

#include "base/text/config_error.h"
#include "contract/spec/expression.h"
#include "contract/spec/run_spec.h"
#include "contract/spec/run_spec_keys.h"
#include "contract/spec/yaml_value.h"

namespace fsdp {

// A key with a value that follows from others.
struct DerivedValue {
  size_t key;  // its number
  Expression expression;
};

// One layer of overrides. It is read from YAML and checked once, then applied to many RunSpecs.
//
// Keys are nested ({strategy: {kind: ddp}}), dotted ({strategy.kind: ddp}) or mixed. Null clears an
// optional. A value with a reference (${strategy.ranks} * 2) is an expression. model.config may be
// the name of a preset, or have one under `preset`. The preset gives every key of model.config that
// the layer does not give itself. Some keys are alternatives (see alternatives()), such as
// batch.total and batch.gradient_accumulation_steps. A layer that gives one clears the other if an
// earlier layer gave it. But model.config never clears model.source.
class Overrides {
 public:
  // Adds the keys of `map`. Throws ConfigError with place, key, problem, allowed values and the
  // nearest name. Reasons: unknown or duplicate key, wrong type, out of range, both of two
  // alternatives.
  void add(const YAML::Node& map, const YamlOrigin& origin);
  // Adds one key. `entry.path` is its dotted name.
  void add(const YamlEntry& entry);
  // Adds a whole specification, which may hold both of two alternatives.
  void add_complete(const YAML::Node& map, const YamlOrigin& origin);

  // Sets this layer's keys in `spec`. Keys with expressions get their defaults (see SpecDraft).
  void apply(RunSpec& spec) const;

  // True if every key given here has the same value in `spec`, and a meaning there. Keys of
  // model.config have none beside model.source. The layer must have no expressions.
  bool matches(const RunSpec& spec) const;

  const std::vector<DerivedValue>& derived() const { return derived_; }

  // The numbers of the keys written in this layer, without those that come from a preset.
  std::vector<size_t> given() const;

  // The preset that this layer names. Empty if there is none.
  const std::string& preset() const { return preset_; }

  // True if this layer gives the key of this number, or clears it by giving its alternative.
  bool changes(size_t key) const { return changed_[key]; }

  // The place where this layer gives `key` or the first key below it. Empty if it gives neither.
  std::string place(std::string_view key) const;

 private:
  struct Given {
    size_t key;
    std::string place;
    bool is_cleared = false;  // by null
    bool is_of_preset = false;
  };

  void read_map(const YAML::Node& map, const YamlOrigin& origin, const std::string& prefix,
                const std::string& place);
  void read_entry(const YamlEntry& entry);
  // Sets model.config's keys to those of the preset in `entry`. Keys that the layer gives stay.
  void read_preset(const YamlEntry& entry);
  void read_value_of(size_t key, const YamlEntry& entry);
  // Returns true if the value is null.
  bool read_plain_value_of(size_t key, const YamlEntry& entry);
  void settle_alternatives(const YamlEntry& entry);

  RunSpec values_;
  // By number of key: true if given here, or cleared because its alternative is.
  std::vector<bool> changed_ = std::vector<bool>(run_spec_keys().size());
  std::vector<Given> given_;
  std::vector<DerivedValue> derived_;
  std::string preset_;
  bool is_complete_ = false;
};

}  // namespace fsdp
