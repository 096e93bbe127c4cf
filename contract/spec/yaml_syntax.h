#pragma once

#include <string>

#include "contract/spec/yaml_value.h"

namespace fsdp {

// Throws ConfigError, with the place and what to do, unless `text` is one document of the YAML that
// experiments are written in: UTF-8 without control characters or tabs in the indentation, and
// neither tags nor merge keys. Anchors and aliases are allowed; an alias stands for what its anchor
// marks. `text` has no byte-order mark.
void check_yaml_syntax(const std::string& text, const YamlOrigin& origin);

}  // namespace fsdp
