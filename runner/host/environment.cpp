// Reads this process's environment.
#include "runner/host/environment.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace fsdp {

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const size_t equals = std::min(text.find('='), text.size());
    variables.emplace(text.substr(0, equals), text.substr(std::min(equals + 1, text.size())));
  }
  return variables;
}

}  // namespace fsdp
