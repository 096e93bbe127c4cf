#pragma once

#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/spec/run_spec_yaml.h"

// Layers of values, which together make a specification.
namespace fsdp {

// A value that is computed from a run's other keys. It is a reference, "${strategy.ranks}", or a
// product or quotient of references and numbers: "${batch.size_per_rank} * 1e-4 / 2". The order is
// from left to right.
class Expression {
 public:
  // True if `value` is meant to be an expression: a scalar, in quotes or not, that holds "${".
  static bool is_meant(const YAML::Node& value);

  // Throws ConfigError if `entry.value` is malformed or refers to an unknown key.
  explicit Expression(const YamlEntry& entry);

  // Returns the result as written in YAML, with the values of `spec`. Throws ConfigError (place:
  // the expression's) if a key has no value, a factor is not a number, or the result is not finite.
  std::string result(const RunSpec& spec) const;

  // True if the expression refers to this key.
  bool refers_to(const RunSpecKey& key) const;

  const std::string& text() const { return text_; }
  const std::string& place() const { return place_; }

 private:
  struct Factor {
    const RunSpecKey* key = nullptr;  // null: a number
    long double number = 1;
    bool is_divisor = false;
  };

  [[noreturn]] void refuse(const std::string& problem) const;
  Factor read_factor(std::string_view& rest) const;
  long double number_of(const Factor& factor, const RunSpec& spec) const;
  std::string text_of(const RunSpecKey& key, const RunSpec& spec) const;

  std::string key_;  // the key that gets this value
  std::string text_;
  std::string place_;
  std::vector<Factor> factors_;
};

// A key, and the expression that gives its value.
struct DerivedValue {
  size_t key;  // number of the key in run_spec_keys()
  Expression expression;
};

// One layer of overrides. It is read from YAML and checked once, then applied to many RunSpecs.
//
// Keys are nested ({strategy: {kind: ddp}}), dotted ({strategy.kind: ddp}) or mixed. Null clears an
// optional. Input paths become absolute. A value with a reference (${strategy.ranks} * 2) is an
// expression. model.config may be the name of a preset, or have one under `preset`. The preset
// gives every key of model.config that the layer does not give itself. Some keys are alternatives
// (see alternatives()), such as batch.total and batch.gradient_accumulation_steps. A layer that
// gives one clears the other if an earlier layer gave it. But model.config never clears
// model.source.
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

  // True if every key given here has the same value in `spec`, and counts there. Keys of
  // model.config do not count beside model.source. The layer must have no expressions.
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

  // Sets model.config's keys to the values of the preset in `entry`. Keys that the layer gives
  // itself stay.
  void read_preset(const YamlEntry& entry);
  void read_section(const YamlEntry& entry, const std::vector<std::string>& keys);
  void read_value_of(size_t key, const YamlEntry& entry);
  void clear_alternatives(const YamlEntry& entry);

  RunSpec values_;
  // By number of key: true if the key is given here, or cleared because its alternative is given
  // here.
  std::vector<bool> changed_ = std::vector<bool>(run_spec_keys().size());
  std::vector<Given> given_;
  std::vector<DerivedValue> derived_;
  std::string preset_;
  bool is_complete_ = false;
};

// A specification in the making: the values of the layers applied so far, and the expressions for
// other keys. It points to the layers' expressions, so the layers must outlive it.
class SpecDraft {
 public:
  // Replaces values and expressions of earlier layers by those that the layer gives. Throws
  // ConfigError if it gives model.config beside an earlier model.source.
  void apply(const Overrides& layer);

  // The specification without its expressions. Their keys have their defaults.
  const RunSpec& plain() const { return spec_; }

  // Returns the specification, not yet resolved. Throws ConfigError (place: the expression's) if an
  // expression has no result, or if its key may not hold the result. An expression must not refer
  // to a key that has an expression.
  RunSpec evaluated() const;

 private:
  RunSpec spec_;
  std::vector<const DerivedValue*> derived_;
};

}  // namespace fsdp
