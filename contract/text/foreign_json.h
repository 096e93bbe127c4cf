#pragma once

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

// JSON that others wrote, or that may be damaged. Every such document is read here, but for events,
// whose reader (event_from_json_line) has bounds of its own.
namespace fsdp {

inline constexpr size_t kLargestJsonBytes = 16 << 20;
inline constexpr int kDeepestJson = 64;

// How many arrays and objects of `text` are within each other at most.
inline int json_depth(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool is_quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_quoted) {
      if (c == '\\') ++i;
      is_quoted = c != '"';
    } else if (c == '"') {
      is_quoted = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

// Throws std::exception, before it becomes objects, when it is larger or deeper, or no JSON.
template <typename Json = nlohmann::json>
Json parse_foreign_json(std::string_view text, size_t largest_bytes = kLargestJsonBytes) {
  if (text.size() > largest_bytes) {
    throw std::runtime_error("it holds " + std::to_string(text.size()) +
                             " bytes; allowed: at most " + std::to_string(largest_bytes));
  }
  // Not a callback of the parser: with one, each object's end looks at all that its parent has.
  if (json_depth(text) > kDeepestJson) {
    throw std::runtime_error("it is nested more than " + std::to_string(kDeepestJson) + " deep");
  }
  return Json::parse(text);
}

}  // namespace fsdp
