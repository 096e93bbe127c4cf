// Composes the names of lists, and takes them apart again. A value may hold commas: an override
// begins only where a key and '=' follow.
#include "runner/store/list_name.h"

#include <fmt/ranges.h>

namespace fsdp {
namespace {

constexpr std::string_view kOpens = " [";
constexpr std::string_view kBetween = ", ";

// Returns the place of " [" in the name; npos: the name has no overrides.
size_t place_of_overrides(std::string_view list) {
  return list.ends_with(']') ? list.find(kOpens) : std::string_view::npos;
}

bool begins_override(std::string_view text) {
  const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.");
  return end != 0 && end != std::string_view::npos && text[end] == '=';
}

}  // namespace

std::string list_name(const std::string& experiment, const std::vector<std::string>& overrides) {
  if (overrides.empty()) return experiment;
  return fmt::format("{}{}{}]", experiment, kOpens, fmt::join(overrides, kBetween));
}

std::string experiment_of_list(std::string_view list) {
  return std::string(list.substr(0, place_of_overrides(list)));
}

std::vector<std::string> overrides_in(std::string_view list) {
  std::vector<std::string> overrides;
  const size_t begin = place_of_overrides(list);
  if (begin == std::string_view::npos) return overrides;
  std::string_view rest = list.substr(begin + kOpens.size());
  rest.remove_suffix(1);
  while (!rest.empty()) {
    size_t end = rest.find(kBetween);
    while (end != rest.npos && !begins_override(rest.substr(end + kBetween.size()))) {
      end = rest.find(kBetween, end + 1);
    }
    overrides.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end == rest.npos ? rest.size() : end + kBetween.size());
  }
  return overrides;
}

}  // namespace fsdp
