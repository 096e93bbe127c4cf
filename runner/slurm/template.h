#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

struct TemplateValue {
  std::string name;
  std::string text;  // one word or several lines, without a line break at the end
};

// `text` with every {{name}} replaced; a line that was nothing but a name of an empty value is left
// out. Throws ConfigError (place: `place`, key: slurm.template) for a name that has no value, and
// for a value, not empty, whose name is not in the text.
std::string filled_template(std::string_view text, const std::vector<TemplateValue>& values,
                            const std::string& place);

}  // namespace fsdp
