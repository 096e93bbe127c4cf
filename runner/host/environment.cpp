#include "runner/host/environment.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace fsdp {

std::string shell_quoted(std::string_view word) {
  const bool is_plain = word.find_first_not_of(
                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                            "0123456789_-./:,=+@%") == std::string_view::npos;
  if (is_plain && !word.empty()) return std::string(word);
  std::string text = "'";
  for (const char c : word) {
    c == '\'' ? text += "'\\''" : text += c;
  }
  text += '\'';
  return text;
}

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
