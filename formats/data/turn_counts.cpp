#include "formats/data/turn_counts.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "base/files/input_file.h"
#include "base/text/utf8.h"

namespace fsdp {
namespace {

constexpr size_t kMostNames = 20;  // of a kind
constexpr size_t kMostOfRole = 30;
constexpr size_t kMostOfText = 500;

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
  std::string lower(role);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const auto found = std::ranges::find(kRoles, lower, [](const auto& each) { return each.first; });
  return found == kRoles.end() ? role : found->second;
}

void TurnCounts::Names::add(std::string_view name, int64_t count) {
  counts[name.empty() ? "''" : shortened(name, kMostOfRole)] += count;
  if (counts.size() <= kMostNames) return;
  const auto last = std::prev(counts.end());
  dropped += last->second;
  counts.erase(last);
}

void TurnCounts::Names::add(const Names& other) {
  for (const auto& [name, count] : other.counts) add(name, count);
  dropped += other.dropped;
}

void TurnCounts::Names::append_to(std::string& text, std::string separator,
                                  const char* ending) const {
  std::vector<std::pair<std::string, int64_t>> all(counts.begin(), counts.end());
  std::ranges::stable_sort(all, std::greater(), &std::pair<std::string, int64_t>::second);
  if (dropped > 0) all.emplace_back("of other names", dropped);
  for (const auto& [name, count] : all) {
    text += std::exchange(separator, ", ") + std::to_string(count) + ' ' + name + ending;
  }
}

std::string_view TurnCounts::add_turn(std::string_view role) {
  const std::string_view known = known_role(role);
  (known == "assistant" ? answers_ : others_).add(role, 1);
  return known;
}

void TurnCounts::add(const TurnCounts& other) {
  answers_.add(other.answers_);
  others_.add(other.others_);
  unread_keys_.add(other.unread_keys_);
  answers_without_end_ += other.answers_without_end_;
}

std::string TurnCounts::text() const {
  std::string text;
  answers_.append_to(text, "", " (trained on)");
  others_.append_to(text, text.empty() ? "" : ", ");
  if (answers_without_end_ > 0) {
    text += "; no token ends " + std::to_string(answers_without_end_) + " of the answers";
  }
  unread_keys_.append_to(text, "; not read: ");
  return shortened(text, kMostOfText);
}

void require_answers(const std::filesystem::path& file, const TurnCounts& turns) {
  if (turns.empty() || turns.has_answers()) return;
  refuse_file(file, "has no answer to train on; its turns: " + turns.text() +
                        "; needed: turns of the role assistant (gpt, chatgpt, model, bot and ai "
                        "are read as it, human as user)");
}

}  // namespace fsdp
