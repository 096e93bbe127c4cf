#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contract/spec/run_spec.h"
#include "contract/spec/yaml_value.h"

// The keys of a RunSpec, from its visit_fields, and its YAML.
namespace fsdp {

// A key that holds a value. Its number is its position in run_spec_keys().
struct RunSpecKey {
  std::string name;        // dotted: "strategy.kind"
  std::string short_name;  // "precision" for "precision.kind", which a section's short form sets
  std::string allowed;     // "an integer, at least 1"
  Range range;
  std::optional<Effect> effect;  // the key's, or its section's
  bool is_integer = false;       // also for an optional integer
  bool is_path = false;          // also for AutoOrPath
  bool is_nullable = false;
  std::vector<std::string_view> names;  // of the values, if the key has an enumeration

  std::function<void(RunSpec& spec, const YamlEntry& entry)> read;
  std::function<std::string(const RunSpec& spec)> yaml;  // canonical; "null" if there is no value
  std::function<bool(const RunSpec& one, const RunSpec& other)> is_equal;
  std::function<void(const RunSpec& from, RunSpec& to)> copy;

  bool is_given(const RunSpec& spec) const { return !is_nullable || yaml(spec) != "null"; }
};

// Every key that holds a value, in the order of the struct.
const std::vector<RunSpecKey>& run_spec_keys();

// Null if no key that holds a value has this dotted name.
const RunSpecKey* find_run_spec_key(std::string_view name);
// The names directly below a section, such as "strategy"; "" is the whole specification. Null if
// there is no such section.
const std::vector<std::string>* find_run_spec_section(std::string_view name);

bool is_integer_key(std::string_view key);
// The range of the key with this dotted name.
Range range_of_key(std::string_view key);

// Resets to its default each key of `spec` that has another value in `other`.
void reset_differences(RunSpec& spec, const RunSpec& other);
// Resets to its default each key with an effect of at most `most`.
void reset_effects(RunSpec& spec, Effect most);
// Returns the keys that affect the losses of training a model with `config`. The other keys have
// their defaults. batch.total stands for the keys that it follows from.
RunSpec keys_of_losses(RunSpec spec, const ModelConfig& config);

// True if a run has a key or a section of this dotted name.
bool is_key_of_a_run(std::string_view name);

// Returns the dotted key or section that an unknown `name` means: `name` itself, a key that ends
// like it ("train.epochs" for "epochs"), or the meaning of a synonym ("optimizer.learning_rate" for
// "lr"). Empty if there is none.
std::string key_meant(const std::string& name);

// Returns "; 'fp32' is a value of 'precision.kind'". Empty if no enumerated key has this value.
std::string hint_of_key_with_value(const std::string& value);

// Returns the text to add to "unknown key" for the dotted name `path`: "; allowed: kind, ranks; did
// you mean 'ranks'?". Looks for the wrong name in the deepest section of the path, and then
// anywhere (a `ranks` outside of `strategy`).
std::string allowed_instead_of(const std::string& path);

// Two keys or sections. A run has only one of them.
struct Alternatives {
  std::string_view one;
  std::string_view other;
};

const std::vector<Alternatives>& alternatives();

// Returns the keys and sections that a run with this key does not have.
std::vector<std::string_view> alternatives_to(std::string_view key);

bool is_at_or_below(std::string_view key, std::string_view section);

// Returns the name of the alternative that `spec` gives instead of `key`, such as "model.source"
// for keys of model.config. `key` then counts for nothing. Empty if there is none.
std::string_view taken_instead(const RunSpec& spec, const RunSpecKey& key);

// Reads and resolves a run.yaml, written by to_yaml() or by hand. Throws ConfigError.
RunSpec read_run_spec(const std::filesystem::path& file);
// Reads the text of a run.yaml.
RunSpec run_spec_from_yaml(const std::string& text, const YamlOrigin& origin);

// Writes canonical YAML: every key in the order of the struct, with defaults.
std::string to_yaml(const RunSpec& spec);

// Every key, dotted, with its value in canonical YAML, in the order of the struct.
std::vector<std::pair<std::string, std::string>> keys_and_values(const RunSpec& spec);

// The dotted keys that differ from a default RunSpec, one `key=value` a line, without input paths.
// A run's identity is computed from them and from digests of the input files.
std::string differences_from_default(const RunSpec& spec);

}  // namespace fsdp
