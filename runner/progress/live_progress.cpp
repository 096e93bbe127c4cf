#include "runner/progress/live_progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "contract/record/standard_streams.h"
#include "contract/text/utf8.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

constexpr std::chrono::milliseconds kDrawInterval{100};

TerminalSize terminal_size() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {.columns = size.ws_col, .lines = size.ws_row == 0 ? TerminalSize{}.lines : size.ws_row};
}

// Returns the text, broken between words if it is wider than the terminal.
std::string said(std::string_view text) {
  const std::string line = visible_line(text);
  const size_t columns = terminal_size().columns;
  return display_width(line) < columns ? line + '\n' : wrapped("", line, 0, columns);
}

// Returns the display width of a line that may contain colours.
size_t shown_width(const std::string& line) {
  static const std::regex colour("\033\\[[0-9]*m");
  return display_width(std::regex_replace(line, colour, ""));
}

}  // namespace

size_t rows_taken(std::span<const size_t> widths, size_t columns) {
  size_t rows = 0;
  for (const size_t width : widths) rows += std::max<size_t>(1, (width + columns - 1) / columns);
  return rows;
}

LiveProgress::LiveProgress() : colour_(std::getenv("NO_COLOR") == nullptr) {}

LiveProgress::~LiveProgress() { LiveProgress::close(); }

void LiveProgress::close() { write_whole(STDERR_FILENO, cleared()); }

void LiveProgress::say(std::string_view line) {
  const std::string before = cleared();
  write_whole(STDERR_FILENO, before + said(line) + drawn(ProgressClock::now()));
}

void LiveProgress::show(const RunProgress& run) {
  if (run.status == RunStatus::kRunning) refresh();
  if (run.has_failed()) say(end_line(run));
}

void LiveProgress::update(ProgressClock::time_point now) {
  if (runs().empty() || now - drawn_at_ < kDrawInterval) return;
  const std::string before = cleared();
  write_whole(STDERR_FILENO, before + drawn(now));
}

std::string LiveProgress::cleared() {
  const size_t rows = rows_taken(drawn_widths_, terminal_size().columns);
  drawn_widths_.clear();
  return rows > 0 ? fmt::format("\033[{}A\r\033[J", rows) : "";
}

std::string LiveProgress::drawn(ProgressClock::time_point now) {
  if (runs().empty()) return "";
  drawn_at_ = now;
  std::string text;
  for (const std::string& line :
       live_view(runs(), ended_order(), terminal_size(), drawn_at_, colour_)) {
    drawn_widths_.push_back(shown_width(line));
    text += line + '\n';
  }
  return text;
}

}  // namespace fsdp
