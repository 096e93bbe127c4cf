// Says in one line what documents took from records. The text does not depend on the order of the
// records, so that any number of threads may count.
#include "formats/data/record_counts.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include "base/files/input_file.h"
#include "base/text/fields.h"
#include "base/text/utf8.h"

namespace fsdp {
namespace {

constexpr size_t kMostNames = 20;  // in each RecordCounts::Names
constexpr size_t kMostOfName = 30;
constexpr size_t kMostOfText = 1500;

// Returns the role that chat formats know: "assistant" for gpt, chatgpt, model, bot and ai, "user"
// for human. Returns `role` itself if it is not known.
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

// " (did you mean assistant?)" for "assistnat"; empty for a known role and for any other word.
std::string role_hint(const std::string& role) {
  if (known_role(role) != role || known_role(role) == "user" || known_role(role) == "system")
    return "";
  const std::string near = nearest_name(role, {"assistant", "system", "user", "human", "chatgpt"});
  return near.empty() ? "" : " (did you mean " + near + "?)";
}

}  // namespace

void RecordCounts::Names::add(const std::string& name, int64_t count) {
  counts[name] += count;
  if (counts.size() <= kMostNames) return;
  const auto last = std::prev(counts.end());
  dropped += last->second;
  counts.erase(last);
}

void RecordCounts::Names::add(std::string_view name) {
  add(name.empty() ? "''" : visible_line(shortened(name, kMostOfName)), 1);
}

void RecordCounts::Names::add(const Names& other) {
  for (const auto& [name, count] : other.counts) add(name, count);
  dropped += other.dropped;
}

std::string RecordCounts::Names::text(
    const std::function<std::string(const std::string&)>& ending) const {
  std::vector<std::pair<std::string, int64_t>> all(counts.begin(), counts.end());
  std::ranges::stable_sort(all, std::greater(), &std::pair<std::string, int64_t>::second);
  if (dropped > 0) all.emplace_back("of other names", dropped);
  std::string text;
  for (const auto& [name, count] : all) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + ' ' + name;
    if (ending) text += ending(name);
  }
  return text;
}

std::string_view RecordCounts::add_turn(std::string_view role) {
  const std::string_view known = known_role(role);
  (known == "assistant" ? answers_ : others_).add(role);
  return known;
}

void RecordCounts::add(const RecordCounts& other) {
  answers_.add(other.answers_);
  others_.add(other.others_);
  unread_keys_.add(other.unread_keys_);
  unread_columns_.add(other.unread_columns_);
  special_tokens_.add(other.special_tokens_);
  answers_without_end_ += other.answers_without_end_;
}

std::string RecordCounts::turns() const {
  const std::string answers = answers_.text([](const std::string&) { return " (trained on)"; });
  const std::string others = others_.text(role_hint);
  return answers + (answers.empty() || others.empty() ? "" : ", ") + others;
}

std::string RecordCounts::text() const {
  std::string text;
  const auto append = [&](const std::string& what, const std::string& names) {
    if (!names.empty()) text += (text.empty() ? "" : "; ") + what + names;
  };
  append("turns: ", turns());
  if (answers_without_end_ > 0) {
    append("", "no token ends " + std::to_string(answers_without_end_) + " of the answers");
  }
  append("not read: ", unread_keys_.text());
  append("columns not read: ", unread_columns_.text());
  append("special tokens in texts: ", special_tokens_.text());
  return shortened(text, kMostOfText);
}

void RecordCounts::require_answers(const std::filesystem::path& file) const {
  if (others_.counts.empty() || !answers_.counts.empty()) return;
  refuse_file(file, "has no answer to train on; its turns: " + turns() +
                        "; needed: turns of the role assistant (gpt, chatgpt, model, bot and ai "
                        "are read as it, human as user)");
}

}  // namespace fsdp
