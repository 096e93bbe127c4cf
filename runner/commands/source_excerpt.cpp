#include "runner/commands/source_excerpt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include "base/text/utf8.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

constexpr size_t kTabColumns = 8;
constexpr size_t kColumnsBefore = 60;
constexpr size_t kColumnsAfter = 30;
constexpr size_t kFarBytes = 1000;  // no text farther from the column is looked at
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

struct Place {
  std::string file;
  size_t line;    // from 1
  size_t column;  // from 1, in bytes
};

std::optional<Place> read_place(std::string_view text) {
  std::array<size_t, 2> numbers{};  // the column, then the line
  for (size_t& number : numbers) {
    const size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
    if (error != std::errc() || end != digits.end() || number == 0) return std::nullopt;
    text = text.substr(0, colon);
  }
  return Place{std::string(text), numbers[1], numbers[0]};
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

std::string joined_text(const std::vector<std::string>& characters) {
  return fmt::to_string(fmt::join(characters, ""));
}

}  // namespace

std::string source_excerpt(const std::string& place_text) {
  const auto place = read_place(place_text);
  const auto line = place ? read_line(place->file, place->line) : std::nullopt;
  if (!line) return "";
  const size_t at = std::min(place->column - 1, line->size());
  const size_t begin = at > kFarBytes ? at - kFarBytes : 0;
  const size_t end = std::min(line->size(), at + kFarBytes);
  std::vector<std::string> before, after;  // characters, as shown
  size_t columns = 0;
  for (size_t byte = begin; byte < end;) {
    const auto rest = std::string_view(*line).substr(byte, end - byte);
    std::vector<std::string>& side = byte < at ? before : after;
    side.push_back(rest.front() == '\t' ? std::string(kTabColumns - columns % kTabColumns, ' ')
                                        : visible_character(rest));
    columns += display_width(side.back());
    byte += std::max<size_t>(utf8_length(rest), 1);
  }
  bool is_cut_before = begin > 0, is_cut_after = end < line->size();
  for (; display_width(joined_text(before)) > kColumnsBefore; is_cut_before = true) {
    before.erase(before.begin());
  }
  for (; display_width(joined_text(after)) > kColumnsAfter; is_cut_after = true) after.pop_back();

  const std::string left = (is_cut_before ? "…" : "") + joined_text(before);
  const std::string right = joined_text(after) + (is_cut_after ? "…" : "");
  return fmt::format("{:>5} | {}{}\n{:5} | {:{}}^\n", place->line, left, right, "", "",
                     display_width(left));
}

}  // namespace fsdp
