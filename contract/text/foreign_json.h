#pragma once

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

// Throws std::exception, before it becomes objects, when it is larger or deeper, or no JSON.
template <typename Json = nlohmann::json>
Json parse_foreign_json(std::string_view text, size_t largest_bytes = kLargestJsonBytes) {
  if (text.size() > largest_bytes) {
    throw std::runtime_error("it holds " + std::to_string(text.size()) +
                             " bytes; allowed: at most " + std::to_string(largest_bytes));
  }
  const auto is_shallow = [](int depth, auto, const auto&) {
    if (depth <= kDeepestJson) return true;
    throw std::runtime_error("it is nested more than " + std::to_string(kDeepestJson) + " deep");
  };
  return Json::parse(text, is_shallow);
}

}  // namespace fsdp
