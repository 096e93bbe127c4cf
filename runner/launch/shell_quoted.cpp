#include "runner/launch/shell_quoted.h"

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

}  // namespace fsdp
