#pragma once

#include <fmt/ranges.h>

#include <ranges>
#include <string>

namespace fsdp {

// "a, b, c"; of more than eight the first seven "and 12 more".
template <std::ranges::sized_range Names>
std::string joined_names(const Names& names) {
  constexpr size_t kMostShown = 8;
  if (names.size() <= kMostShown) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names | std::views::take(kMostShown - 1), ", "),
                     names.size() - kMostShown + 1);
}

}  // namespace fsdp
