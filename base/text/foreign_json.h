#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// Reads JSON that others wrote or that may be damaged. Only events and data records are read
// elsewhere, with limits of their own: by event_from_json_line(), and in formats/data/record.cpp.
namespace fsdp {

inline constexpr size_t kLargestJsonBytes = 16 << 20;
inline constexpr int kDeepestJson = 64;
inline constexpr size_t kMostJsonValues = 10'000'000;  // a model of 1,000,000 tensors has 9,000,000

// Calls visit(place, depth) at each unquoted bracket of `text` until it returns false. `depth` is
// the number of open brackets after this one. Exact up to the first error in the JSON.
template <typename Visit>
void visit_json_brackets(std::string_view text, Visit visit) {
  int64_t depth = 0;
  bool is_quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_quoted) {
      if (c == '\\') ++i;
      is_quoted = c != '"';
    } else if (c == '"') {
      is_quoted = true;
    } else if (c == '{' || c == '[') {
      if (!visit(i, ++depth)) return;
    } else if (c == '}' || c == ']') {
      if (!visit(i, --depth)) return;
    }
  }
}

// Throws std::bad_alloc if there is not enough memory for parsed JSON of this size. The destructor
// of a nlohmann::json allocates, and ends the program if it cannot.
void require_memory_for_json(size_t bytes, size_t values);

// Throws std::exception if the text is too large or too deep, holds too many values, or is not
// JSON. The limits are checked before objects are made.
template <typename Json = nlohmann::json>
Json parse_foreign_json(std::string_view text, size_t largest_bytes = kLargestJsonBytes) {
  if (text.size() > largest_bytes) {
    throw std::runtime_error("it holds " + std::to_string(text.size()) +
                             " bytes; allowed: at most " + std::to_string(largest_bytes));
  }
  auto values =
      static_cast<size_t>(std::ranges::count(text, ','));  // upper bound: some are in strings
  // A callback of the parser would be slow: at each object's end, it goes through all values of the
  // parent.
  visit_json_brackets(text, [&](size_t, int64_t depth) {
    ++values;
    if (depth <= kDeepestJson) return true;
    throw std::runtime_error("it is nested more than " + std::to_string(kDeepestJson) + " deep");
  });
  if (values > kMostJsonValues) {
    throw std::runtime_error("it holds more than " + std::to_string(kMostJsonValues) + " values");
  }
  require_memory_for_json(text.size(), values);
  return Json::parse(text);
}

// Returns a key that this object of simdjson has twice. nullopt if there is none. JSON readers
// differ in the value that they take.
template <typename Object>
std::optional<std::string> repeated_key(const Object& object) {
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : object) keys.push_back(key);
  std::ranges::sort(keys);
  const auto twice = std::ranges::adjacent_find(keys);
  return twice == keys.end() ? std::nullopt : std::optional<std::string>(*twice);
}

}  // namespace fsdp
