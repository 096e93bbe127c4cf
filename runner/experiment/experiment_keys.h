#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/config_error.h"
#include "contract/spec/yaml_value.h"

namespace fsdp {

// A key of an experiment file. RunSpec has the keys of a run's specification.
struct ExperimentKey {
  std::string_view path;  // dotted; a name in capitals is the user's choice
  std::string_view type;
  std::string_view documentation;
};

std::span<const ExperimentKey> experiment_keys();

// A map of an experiment file. All its keys are known.
struct Section {
  std::vector<YamlEntry> entries;  // in their order

  // Null if the key is missing.
  const YamlEntry* find(std::string_view name) const;

  // Leaves `member` unchanged if the key is missing.
  template <typename T>
  void read(std::string_view name, T& member, const Range& range) const {
    if (const YamlEntry* entry = find(name)) read_value(member, *entry, range);
  }
};

// Reads the map of `entry`, which may have the keys directly below `section`. Throws ConfigError.
// Unknown keys are added to `mistakes`; without it they are thrown.
Section read_section(const YamlEntry& entry, std::string_view section,
                     Mistakes* mistakes = nullptr);

// The names of the keys directly below `section` ("profiles.NAME"; empty: the top of the file).
std::vector<std::string> experiment_key_names(std::string_view section);

// Documents every key of an experiment file: key, type, default, allowed values and a sentence.
// Made from the definitions that the loader uses.
std::string experiment_reference();
// The same for `section` and the keys below it. Throws ConfigError if there is no such key.
std::string experiment_reference(const std::string& section);

// Returns a JSON Schema (draft 2020-12) of experiment files, made from the same definitions.
std::string experiment_schema();

}  // namespace fsdp
