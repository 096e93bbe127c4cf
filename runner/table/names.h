#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Lists of names in sentences, and functions that select, convert and group items.
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

// "a, b, 4 more", with the first `most` names.
inline std::string first_names(std::vector<std::string> names, size_t most) {
  const size_t more = names.size() - std::min(names.size(), most);
  names.resize(names.size() - more);
  if (more > 0) names.push_back(fmt::format("{} more", more));
  return fmt::format("{}", fmt::join(names, ", "));
}

// "a; b", without empty texts.
inline std::string joined_texts(std::vector<std::string> texts, std::string_view separator) {
  std::erase(texts, "");
  return fmt::format("{}", fmt::join(texts, separator));
}

// "a to c"; "a" if both are equal.
inline std::string range_text(const std::string& least, const std::string& most,
                              std::string_view between = " to ") {
  return least == most ? most : fmt::format("{}{}{}", least, between, most);
}

// Returns the name, in quotes if a sentence would not show where it ends: "a, b", "one process".
inline std::string quoted_if_unclear(const std::string& name) {
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  const bool is_list = has(",") || has(";") || has(" and ");
  const bool is_words =
      has(" ") && name.find_first_not_of(" abcdefghijklmnopqrstuvwxyz") == name.npos;
  return is_list || is_words ? "'" + name + "'" : name;
}

// Returns what `of` returns for each item.
template <std::ranges::range Items, typename Of>
auto mapped(const Items& items, Of of) {
  std::vector<std::decay_t<std::invoke_result_t<Of, std::ranges::range_reference_t<const Items>>>>
      results;
  for (const auto& item : items) results.push_back(std::invoke(of, item));
  return results;
}

// True if the item is one of `items`.
template <std::ranges::range Items, typename Item>
bool is_among(const Items& items, const Item& item) {
  return std::ranges::find(items, item) != std::ranges::end(items);
}

// Returns the items for which `holds` is true.
template <std::ranges::range Items, typename Holds>
auto only(const Items& items, Holds holds) {
  std::vector<std::ranges::range_value_t<Items>> found;
  std::ranges::copy_if(items, std::back_inserter(found), holds);
  return found;
}

// Returns groups of items with an equal key, in the order of their first items.
template <std::ranges::range Items, typename KeyOf>
auto grouped(const Items& items, KeyOf key_of) {
  using Item = std::ranges::range_value_t<Items>;
  using Key = std::decay_t<std::invoke_result_t<KeyOf, const Item&>>;
  std::vector<std::pair<Key, std::vector<Item>>> groups;
  std::map<Key, size_t> places;
  for (const Item& item : items) {
    const auto [place, is_new] = places.emplace(std::invoke(key_of, item), groups.size());
    if (is_new) groups.push_back({place->first, {}});
    groups[place->second].second.push_back(item);
  }
  return groups;
}

// Returns each item once, in the order of first occurrence.
template <std::ranges::range Items>
auto distinct(const Items& items) {
  return mapped(grouped(items, std::identity()), [](const auto& equal) { return equal.first; });
}

}  // namespace fsdp
