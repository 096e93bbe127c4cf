#include "runner/commands/source_excerpt.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include "contract/text/utf8.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

constexpr size_t kTabColumns = 8;
constexpr size_t kColumnsBefore = 60;
constexpr size_t kColumnsAfter = 30;
constexpr size_t kNumberColumns = 5;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

struct Place {
  std::string file;
  size_t line;    // from 1
  size_t column;  // from 1, in bytes
};

// Removes ":NUMBER" from the end of `text`.
std::optional<size_t> take_number(std::string_view& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(colon + 1);
  size_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number == 0) {
    return std::nullopt;
  }
  text.remove_suffix(digits.size() + 1);
  return number;
}

std::optional<Place> read_place(std::string_view text) {
  const auto column = take_number(text);
  const auto line = column ? take_number(text) : std::nullopt;
  if (!line) return std::nullopt;
  return Place{std::string(text), *line, *column};
}

// Returns the line without its line feed, and the first line without a byte-order mark.
std::optional<std::string> read_line(const std::string& file, size_t number) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return std::nullopt;
  std::ifstream stream(file, std::ios::binary);
  std::string line;
  for (size_t i = 0; i < number; ++i) {
    if (!std::getline(stream, line)) return std::nullopt;
  }
  if (line.ends_with('\r')) line.pop_back();
  if (number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
  return line;
}

// Returns `text` as shown, character by character; the first stands in column `column`.
std::vector<std::string> shown(std::string_view text, size_t column) {
  std::vector<std::string> characters;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (text.front() == '\t') {
      characters.emplace_back(kTabColumns - column % kTabColumns, ' ');
    } else {
      characters.push_back(visible_character(text));
    }
    column += display_width(characters.back());
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return characters;
}

std::string joined_text(const std::vector<std::string>& characters) {
  return fmt::to_string(fmt::join(characters, ""));
}

// Drops text far from the byte `at`, to handle a line of any length quickly.
void drop_far_parts(std::string& line, size_t& at) {
  constexpr size_t kFarBytes = 1000;
  if (line.size() > at + kFarBytes) line.resize(at + kFarBytes);
  if (at > kFarBytes) {
    line.erase(0, at - kFarBytes);
    at = kFarBytes;
  }
}

}  // namespace

std::string source_excerpt(const std::string& place_text) {
  const auto place = read_place(place_text);
  auto line = place ? read_line(place->file, place->line) : std::nullopt;
  if (!line) return "";
  size_t at = std::min(place->column - 1, line->size());
  drop_far_parts(*line, at);
  auto before = shown(std::string_view(*line).substr(0, at), 0);
  auto after = shown(std::string_view(*line).substr(at), display_width(joined_text(before)));
  const size_t all_before = before.size(), all_after = after.size();
  while (display_width(joined_text(before)) > kColumnsBefore) before.erase(before.begin());
  while (display_width(joined_text(after)) > kColumnsAfter) after.pop_back();

  const std::string left = (before.size() < all_before ? "…" : "") + joined_text(before);
  const std::string right = joined_text(after) + (after.size() < all_after ? "…" : "");
  const std::string number = fmt::format("{:>{}}", place->line, kNumberColumns);
  return fmt::format("{} | {}{}\n{:{}} | {:{}}^\n", number, left, right, "", number.size(), "",
                     display_width(left));
}

}  // namespace fsdp
