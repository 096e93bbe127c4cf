#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <utility>
#include <vector>

#include "contract/spec/expression.h"
#include "contract/spec/run_spec.h"
#include "contract/spec/run_spec_keys.h"
#include "contract/spec/yaml_value.h"
#include "contract/text/config_error.h"

namespace fsdp {

// A key whose value follows from others.
struct DerivedValue {
  size_t key;  // its number
  Expression expression;
};

// One layer of overrides: read from YAML and checked once, then applied to any number of RunSpecs.
//
// Keys are nested ({strategy: {kind: ddp}}), dotted ({strategy.kind: ddp}) or mixed; null clears an
// optional, and a value with a reference (${strategy.ranks} * 2) is an expression. model.config may
// be the name of a preset, or have one under `preset`: it gives every key of model.config that the
// layer does not give itself. Some keys are
// alternatives: batch.total and batch.gradient_accumulation_steps, train.steps and train.epochs,
// model.source and model.config. A layer that gives one clears the other when it came from an
// earlier layer, but that model.config never clears model.source.
class Overrides {
 public:
  // Adds what `map` names. Throws ConfigError with place, key, what is wrong, what is allowed and
  // the nearest name: unknown or duplicate key, wrong type, out of range, both of two alternatives.
  void add(const YAML::Node& map, const YamlOrigin& origin);
  // Adds one key, of which `entry.path` is the dotted name.
  void add(const YamlEntry& entry);
  // Adds a whole specification, in which both of two alternatives may stand.
  void add_complete(const YAML::Node& map, const YamlOrigin& origin);

  // Leaves out expressions: those keys get their defaults (see SpecDraft).
  void apply(RunSpec& spec) const;

  // Whether every key given here, none by an expression, has the same value in `spec`, and has a
  // meaning there: model.config's keys have none beside model.source.
  bool matches(const RunSpec& spec) const;

  const std::vector<DerivedValue>& derived() const { return derived_; }

  // The keys that stand in this layer, by number; those that come from a preset are left out.
  std::vector<size_t> given() const;

  // The preset that this layer names; empty if it names none.
  const std::string& preset() const { return preset_; }

  // Whether this layer gives the key of this number, or clears it because it gives its alternative.
  bool changes(size_t key) const { return changed_[key]; }

  // Where this layer gives `key` or the first key below it; empty when it does neither.
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
  // model.config's keys become those of the preset that `entry` names; others of the layer stay.
  void read_preset(const YamlEntry& entry);
  void read_value_of(size_t key, const YamlEntry& entry);
  // Returns whether the value is null.
  bool read_plain_value_of(size_t key, const YamlEntry& entry);
  void settle_alternatives(const YamlEntry& entry);

  RunSpec values_;
  // By number of key: given here, or cleared because its alternative is.
  std::vector<bool> changed_ = std::vector<bool>(run_spec_keys().size());
  std::vector<Given> given_;
  std::vector<DerivedValue> derived_;
  std::string preset_;
  bool is_complete_ = false;
};

}  // namespace fsdp
