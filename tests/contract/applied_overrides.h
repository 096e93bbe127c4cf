#pragma once

#include <string>

#include "base/text/config_error.h"
#include "contract/spec/overrides.h"

namespace fsdp {

inline const YamlOrigin kOrigin{.name = "lab.yaml", .folder = "/data/lab"};

inline void apply_overrides(RunSpec& spec, const YAML::Node& overrides, const YamlOrigin& origin) {
  Overrides layer;
  layer.add(overrides, origin);
  layer.apply(spec);
}

inline void overlay(RunSpec& spec, const std::string& text) {
  apply_overrides(spec, parse_yaml(text, kOrigin), kOrigin);
}

// The default run with the overrides that `text` gives.
inline RunSpec applied(const std::string& text) {
  RunSpec spec;
  overlay(spec, text);
  return spec;
}

// The message of the error that `text` causes.
inline std::string message(const std::string& text) {
  try {
    applied(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace fsdp
