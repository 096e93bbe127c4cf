#include "runner/commands/console.h"

#include <fmt/chrono.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <vector>

#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

// Returns the length of the last character if it may be incomplete, else 0.
size_t unfinished_at_end(std::string_view text) {
  constexpr size_t kLongestBeginning = 3;
  for (size_t length = 1; length <= std::min(kLongestBeginning, text.size()); ++length) {
    const auto byte = static_cast<unsigned char>(text[text.size() - length]);
    if (byte < 0x80) return 0;
    if (byte < 0xc0) continue;  // the middle of a character
    const size_t whole = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return length < whole ? length : 0;
  }
  return 0;
}

// Returns the number behind the last colon of `place`, and removes both. 0: there is none.
size_t take_number(std::string_view& place) {
  const size_t colon = place.rfind(':');
  if (colon == std::string_view::npos) return 0;
  size_t number = 0;
  const auto [end, error] = std::from_chars(place.begin() + colon + 1, place.end(), number);
  if (error != std::errc() || end != place.end()) return 0;
  place = place.substr(0, colon);
  return number;
}

// Returns the line without its line feed, and the first line without a byte-order mark.
std::optional<std::string> read_line(const std::filesystem::path& file, size_t number) {
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

// Returns the characters of `text` as they are shown from column `column` on.
std::vector<std::string> shown_characters(std::string_view text, size_t column) {
  constexpr size_t kTabColumns = 8;
  std::vector<std::string> characters;
  for (; !text.empty(); text.remove_prefix(std::max<size_t>(utf8_length(text), 1))) {
    characters.push_back(text.front() == '\t' ? std::string(kTabColumns - column % kTabColumns, ' ')
                                              : visible_character(text));
    column += display_width(characters.back());
  }
  return characters;
}

std::optional<int64_t> local_time_unix_ms(const std::string& text) {
  for (const char* format : {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"}) {
    std::tm parts{};
    const char* end = strptime(text.c_str(), format, &parts);
    if (end == nullptr || *end != '\0') continue;
    const int day = parts.tm_mday;
    parts.tm_isdst = -1;  // mktime finds if daylight saving time holds on that day
    const std::time_t seconds = std::mktime(&parts);
    if (seconds == -1 || parts.tm_mday != day) return std::nullopt;  // 31 November
    return int64_t{seconds} * 1'000;
  }
  return std::nullopt;
}

std::optional<int64_t> duration_ms(std::string_view text) {
  static const std::map<std::string_view, double> kUnits = {
      {"s", 1e3}, {"m", 6e4}, {"h", 3.6e6}, {"d", 8.64e7}, {"w", 6.048e8}};
  constexpr double kLongest = 1e15;
  double number = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
  if (error != std::errc()) return std::nullopt;
  const auto unit = kUnits.find({end, text.end()});
  if (unit == kUnits.end()) return std::nullopt;
  const double length = number * unit->second;
  return length >= 0 && length < kLongest ? std::optional(static_cast<int64_t>(length))
                                          : std::nullopt;
}

}  // namespace

bool SafeStreams::Buffer::show(size_t kept) {
  const std::string pending = std::move(*this).str();  // which leaves it empty
  std::string_view rest = std::string_view(pending).substr(0, pending.size() - kept);
  sputn(rest.end(), static_cast<std::streamsize>(kept));
  std::string text;
  for (;;) {
    const size_t escape = rest.find('\033');
    text += visible_lines(rest.substr(0, escape));
    if (escape == std::string_view::npos) break;
    rest.remove_prefix(escape);
    const std::string_view colour = own_escape_sequence(rest);
    text += colour.empty() ? visible_line(rest.substr(0, 1)) : colour;
    rest.remove_prefix(std::max<size_t>(colour.size(), 1));
  }
  return write_as_it_is(text);
}

bool SafeStreams::Buffer::write_as_it_is(std::string_view bytes) {
  return shown_->sputn(bytes.data(), std::ssize(bytes)) == std::ssize(bytes);
}

bool SafeStreams::Buffer::finish() {
  const bool is_shown = show(0);
  return shown_->pubsync() == 0 && is_shown;
}

int SafeStreams::Buffer::sync() {
  const bool is_shown = show(unfinished_at_end(view()));
  return shown_->pubsync() == 0 && is_shown ? 0 : -1;
}

SafeStreams::SafeStreams() : output_(std::cout.rdbuf()), errors_(std::cerr.rdbuf()) {
  std::cout.rdbuf(&output_);
  std::cerr.rdbuf(&errors_);
}

SafeStreams::~SafeStreams() {
  const bool is_written = output_.finish();
  errors_.finish();
  std::cerr.rdbuf(errors_.shown());
  std::cout.rdbuf(output_.shown());
  if (!is_written) std::cout.setstate(std::ios::badbit);
}

void SafeStreams::write_program_output(std::string_view bytes) {
  auto* buffer = dynamic_cast<Buffer*>(std::cout.rdbuf());
  if (buffer == nullptr || isatty(STDOUT_FILENO) == 1) {
    std::cout << bytes;
  } else if (!buffer->write_as_it_is(bytes)) {
    std::cout.setstate(std::ios::badbit);
  }
  std::cout.flush();
}

bool stdout_has_colour() {
  return isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
}

size_t stdout_columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const std::string_view said = std::getenv("COLUMNS") ? std::getenv("COLUMNS") : "";
  size_t columns = 0;
  std::from_chars(said.begin(), said.end(), columns);
  return columns;
}

std::string source_excerpt(std::string_view place) {
  constexpr size_t kColumnsBefore = 60, kColumnsAfter = 30;
  constexpr size_t kFarBytes = 1000;  // text farther from the column is ignored
  const size_t column = take_number(place), number = take_number(place);
  if (column == 0 || number == 0) return "";
  const auto line = read_line(place, number);
  if (!line) return "";
  const size_t at = std::min(column - 1, line->size());
  const size_t begin = at > kFarBytes ? at - kFarBytes : 0;
  auto before = shown_characters(std::string_view(*line).substr(begin, at - begin), 0);
  const auto width = [](const auto& texts) {
    return display_width(fmt::format("{}", fmt::join(texts, "")));
  };
  auto after = shown_characters(std::string_view(*line).substr(at, kFarBytes), width(before));
  bool is_cut_before = begin > 0, is_cut_after = line->size() > at + kFarBytes;
  for (; width(before) > kColumnsBefore; is_cut_before = true) before.erase(before.begin());
  for (; width(after) > kColumnsAfter; is_cut_after = true) after.pop_back();
  if (is_cut_before) before.insert(before.begin(), "…");
  if (is_cut_after) after.push_back("…");
  return fmt::format("{:>5} | {}{}\n{:5} | {:{}}^\n", number, fmt::join(before, ""),
                     fmt::join(after, ""), "", "", width(before));
}

std::string local_time(int64_t unix_ms) {
  const time_t seconds = unix_ms / 1000;
  tm parts{};
  if (localtime_r(&seconds, &parts) == nullptr) return std::to_string(seconds) + " s after 1970";
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", parts);
}

int64_t moment_unix_ms(const std::string& text, int64_t now_unix_ms, const std::string& option) {
  if (const auto ago = duration_ms(text)) return now_unix_ms - *ago;
  if (const auto moment = local_time_unix_ms(text)) return *moment;
  throw ConfigError(option, "",
                    "'" + text +
                        "' is not a time; allowed: 2026-11-21, 2026-11-21T14:30, or how long ago: "
                        "90s, 30m, 2h, 3d, 1w");
}

}  // namespace fsdp
