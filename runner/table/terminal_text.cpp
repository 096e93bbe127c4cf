// Measures and cuts text in a terminal's columns.
#include "runner/table/terminal_text.h"

#include <locale.h>
#include <wchar.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <vector>

#include "base/text/utf8.h"

namespace fsdp {
namespace {

constexpr std::string_view kGreen = "\033[32m";
constexpr std::string_view kRed = "\033[31m";

// Makes wcwidth and mbrtowc read UTF-8 in this thread, whatever the user's locale is.
class Utf8Locale {
 public:
  Utf8Locale() {
    static const locale_t kUtf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    if (kUtf8) before_ = uselocale(kUtf8);
  }
  ~Utf8Locale() {
    if (before_) uselocale(before_);
  }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  locale_t before_ = nullptr;
};

struct Character {
  std::string_view bytes;
  size_t columns;
};

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c < 0x80; });
}

std::vector<Character> characters_of(std::string_view text) {
  const Utf8Locale locale;
  std::vector<Character> characters;
  mbstate_t state{};
  while (!text.empty()) {
    wchar_t character = 0;
    size_t length = mbrtowc(&character, text.data(), text.size(), &state);
    size_t columns = 1;
    if (length == 0 || length > text.size()) {  // NUL, or not UTF-8
      state = {};
      length = 1;
    } else {
      columns = static_cast<size_t>(std::max(wcwidth(character), 0));
    }
    characters.push_back({text.substr(0, length), columns});
    text.remove_prefix(length);
  }
  return characters;
}

size_t width_of(const std::vector<Character>& characters) {
  size_t columns = 0;
  for (const Character& character : characters) columns += character.columns;
  return columns;
}

}  // namespace

size_t display_width(std::string_view text) {
  return is_ascii(text) ? text.size() : width_of(characters_of(text));
}

std::string display_cut(std::string_view text, size_t columns) {
  const std::string shown = visible_line(text);
  if (display_width(shown) <= columns) return shown;
  if (columns == 0) return "";
  const std::vector<Character> characters = characters_of(shown);
  const size_t kept_at_end = (columns - 1) / 2;
  const size_t kept_at_start = columns - 1 - kept_at_end;
  std::string start;
  size_t taken = 0;
  for (const Character& character : characters) {
    if (taken + character.columns > kept_at_start) break;
    taken += character.columns;
    start += character.bytes;
  }
  auto end = characters.end();
  for (taken = 0; taken + std::prev(end)->columns <= kept_at_end; --end) {
    taken += std::prev(end)->columns;
  }
  while (end != characters.end() && end->columns == 0) ++end;  // combining characters
  start += "…";
  for (; end != characters.end(); ++end) start += end->bytes;
  return start;
}

namespace {

using Words = std::vector<std::string>;

Words words_of(const std::string& text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// Removes the words that all names share at the front and at the back: "…a=1…" and "…a=2…" from
// "FSDP a=1 c=3" and "FSDP a=2 c=3".
std::vector<std::string> without_shared_words(const std::vector<Words>& names) {
  size_t fewest = names.front().size();
  for (const Words& name : names) fewest = std::min(fewest, name.size());
  const auto all_share = [&](auto word_of) {
    return std::ranges::all_of(
        names, [&](const Words& name) { return word_of(name) == word_of(names[0]); });
  };
  size_t front = 0;
  while (front < fewest && all_share([&](const Words& name) { return name[front]; })) ++front;
  size_t back = 0;
  while (front + back < fewest &&
         all_share([&](const Words& name) { return name[name.size() - 1 - back]; })) {
    ++back;
  }
  std::vector<std::string> texts;
  for (const Words& name : names) {
    std::string text;
    for (size_t i = front; i < name.size() - back; ++i) text += (i > front ? " " : "") + name[i];
    texts.push_back(text.empty() ? "…" : (front > 0 ? "…" : "") + text + (back > 0 ? "…" : ""));
  }
  return texts;
}

size_t count_told_apart(const std::vector<std::string>& names) {
  return std::set<std::string>(names.begin(), names.end()).size();
}

}  // namespace

std::vector<std::string> cut_apart(const std::vector<std::string>& names, size_t columns) {
  std::vector<std::string> cut;
  std::vector<size_t> long_ones;
  std::vector<Words> words;
  for (const std::string& name : names) {
    cut.push_back(display_cut(name, columns));
    if (display_width(name) <= columns) continue;
    long_ones.push_back(cut.size() - 1);
    words.push_back(words_of(name));
  }
  if (long_ones.size() < 2) return cut;
  const std::vector<std::string> shorter = without_shared_words(words);
  std::vector<std::string> without_shared = cut;
  for (size_t i = 0; i < long_ones.size(); ++i) {
    without_shared[long_ones[i]] = display_cut(shorter[i], columns);
  }
  return count_told_apart(without_shared) > count_told_apart(cut) ? without_shared : cut;
}

std::string display_left(std::string_view text, size_t columns) {
  return std::string(text) + std::string(columns - std::min(columns, display_width(text)), ' ');
}

std::string display_right(std::string_view text, size_t columns) {
  return std::string(columns - std::min(columns, display_width(text)), ' ') + std::string(text);
}

std::string wrapped(const std::string& before, const std::string& text, size_t start,
                    size_t width) {
  std::string all, line = display_left(before, start);
  bool is_empty = true;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!is_empty && display_width(line) + 1 + display_width(word) > width) {
      all += line + '\n';
      line = std::string(start, ' ');
      is_empty = true;
    }
    if (!is_empty) line += ' ';
    line += word;
    is_empty = false;
  }
  return all + line + '\n';
}

std::string_view own_escape_sequence(std::string_view text) {
  for (const std::string_view own : {kBold, kDim, kYellow, kPlain, kGreen, kRed}) {
    if (text.starts_with(own)) return own;
  }
  return {};
}

std::string_view colour_of(RunStatus status) {
  switch (status) {
    case RunStatus::kFinished:
      return kGreen;
    case RunStatus::kOutOfMemory:
      return kYellow;
    case RunStatus::kPlanned:
    case RunStatus::kQueued:
    case RunStatus::kRunning:
      return "";
    default:
      return kRed;
  }
}

}  // namespace fsdp
