#pragma once

#include <string>

#include "contract/spec/yaml_value.h"

namespace fsdp {

// Throws ConfigError, with place and remedy, unless `text` is one document of YAML as experiments
// may use it. It must be UTF-8 without control characters, and without tabs in the indentation.
// Tags and merge keys are refused. Anchors and aliases are allowed: an alias stands for the value
// that its anchor marks. `text` has no byte-order mark.
void check_yaml_syntax(const std::string& text, const YamlOrigin& origin);

}  // namespace fsdp
