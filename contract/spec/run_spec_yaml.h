#pragma once

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "contract/spec/run_spec.h"
#include "contract/spec/yaml_value.h"

// Reads and writes RunSpec as YAML, through its visit_fields.
namespace fsdp {

// Sets the fields of `spec` that `overrides` names. The others stay. Keys are nested ({strategy:
// {kind: ddp}}), dotted ({strategy.kind: ddp}) or mixed; null clears an optional. Giving one of two
// alternatives (see Overrides) clears the other. Input paths become absolute. Throws ConfigError
// with place, key, problem, allowed values and the nearest name. `spec` is then unspecified.
void apply_overrides(RunSpec& spec, const YAML::Node& overrides, const YamlOrigin& origin);

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
