#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp {

// Keys and values of one run, in the order shown.
using KeysAndValues = std::vector<std::pair<std::string, std::string>>;

// A key with different values in two runs. nullopt: the run does not have the key.
struct Difference {
  std::string key;
  std::optional<std::string> left, right;
};

inline std::optional<std::string> value_of(const KeysAndValues& keys, const std::string& key) {
  const auto found = std::ranges::find(keys, key, &KeysAndValues::value_type::first);
  return found == keys.end() ? std::nullopt : std::optional(found->second);
}

// Returns the differences in the order of the left keys, then the keys that only the right run has.
inline std::vector<Difference> differences(const KeysAndValues& left, const KeysAndValues& right) {
  std::vector<Difference> found;
  for (const auto& [key, value] : left) {
    const auto other = value_of(right, key);
    if (other != value) found.push_back({key, value, other});
  }
  for (const auto& [key, value] : right) {
    if (!value_of(left, key)) found.push_back({key, std::nullopt, value});
  }
  return found;
}

}  // namespace fsdp
