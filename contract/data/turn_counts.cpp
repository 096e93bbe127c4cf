#include "contract/data/turn_counts.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "contract/files/input_file.h"
#include "contract/text/utf8.h"

namespace fsdp {
namespace {

constexpr size_t kMostNames = 20;  // that are told apart
constexpr size_t kMostOfRole = 30;
constexpr size_t kMostOfText = 500;
constexpr std::string_view kOthers = "others";

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::vector<std::pair<std::string, int64_t>> most_frequent_first(const auto& counts) {
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater(), &std::pair<std::string, int64_t>::second);
  return sorted;
}

bool is_trained_on(std::string_view role) { return known_role(role) == "assistant"; }

}  // namespace

std::string_view known_role(std::string_view role) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kRoles{{
      {"system", "system"},
      {"user", "user"},
      {"human", "user"},
      {"assistant", "assistant"},
      {"gpt", "assistant"},
      {"chatgpt", "assistant"},
      {"model", "assistant"},
      {"bot", "assistant"},
      {"ai", "assistant"},
  }};
  const std::string lower = lower_case(role);
  const auto found = std::ranges::find(kRoles, lower, [](const auto& each) { return each.first; });
  return found == kRoles.end() ? role : found->second;
}

// What answers are called is told apart from the rest, however many names there are.
void TurnCounts::add_to(Counts& counts, std::string_view name, int64_t count) {
  const std::string shown = shortened(name, kMostOfRole);
  const bool is_known = counts.contains(shown) || is_trained_on(shown);
  counts[is_known || counts.size() < kMostNames ? shown : std::string(kOthers)] += count;
}

void TurnCounts::add(const TurnCounts& other) {
  for (const auto& [role, count] : other.roles_) add_to(roles_, role, count);
  for (const auto& [key, count] : other.unread_keys_) add_to(unread_keys_, key, count);
}

bool TurnCounts::has_answers() const {
  return std::ranges::any_of(roles_, [](const auto& each) { return is_trained_on(each.first); });
}

std::string TurnCounts::text() const {
  std::string text;
  for (const auto& [role, count] : most_frequent_first(roles_)) {
    if (!text.empty()) text += ", ";
    text += std::to_string(count) + ' ' + role + (is_trained_on(role) ? " (trained on)" : "");
  }
  std::string separator = "; not read: ";
  for (const auto& [key, count] : most_frequent_first(unread_keys_)) {
    text += std::exchange(separator, ", ") + key + " of " + std::to_string(count);
  }
  return shortened(text, kMostOfText);
}

void require_answers(const std::filesystem::path& file, const TurnCounts& turns) {
  if (turns.empty() || turns.has_answers()) return;
  refuse_file(file, "has no answer to train on; its turns: " + turns.text() +
                        "; needed: turns of the role assistant (gpt, chatgpt, model, bot and ai "
                        "are read as it, human as user)");
}

}  // namespace fsdp
