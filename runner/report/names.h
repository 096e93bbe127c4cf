#pragma once

#include <fmt/ranges.h>

#include <ranges>
#include <string>

namespace fsdp {

// "a, b, c"; if there are more than eight, the first seven "and 12 more".
template <std::ranges::sized_range Names>
std::string joined_names(const Names& names) {
  constexpr size_t kMostShown = 8;
  if (names.size() <= kMostShown) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names | std::views::take(kMostShown - 1), ", "),
                     names.size() - kMostShown + 1);
}

// "a, b and c", with at most eight names; else as joined_names().
template <std::ranges::sized_range Names>
std::string names_in_words(const Names& names) {
  constexpr size_t kMostInWords = 8;
  if (names.size() < 2 || names.size() > kMostInWords) return joined_names(names);
  return fmt::format("{} and {}", fmt::join(names | std::views::take(names.size() - 1), ", "),
                     *std::ranges::prev(names.end()));
}

}  // namespace fsdp
