#include "runner/progress/live_progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "contract/record/standard_streams.h"
#include "contract/text/utf8.h"
#include "runner/report/terminal_text.h"

namespace fsdp {
namespace {

constexpr std::chrono::milliseconds kDrawInterval{100};

TerminalSize terminal_size() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {.columns = size.ws_col, .lines = size.ws_row == 0 ? TerminalSize{}.lines : size.ws_row};
}

// Of a line with colours in it.
size_t shown_width(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\033') {
      i = std::min(line.find('m', i), line.size() - 1);
    } else {
      text += line[i];
    }
  }
  return display_width(text);
}

}  // namespace

size_t rows_taken(std::span<const size_t> widths, size_t columns) {
  size_t rows = 0;
  for (const size_t width : widths) rows += std::max<size_t>(1, (width + columns - 1) / columns);
  return rows;
}

LiveProgress::LiveProgress() : colour_(std::getenv("NO_COLOR") == nullptr) {}

LiveProgress::~LiveProgress() { LiveProgress::close(); }

void LiveProgress::close() {
  std::string out;
  clear(out);
  write_whole(STDERR_FILENO, out);
}

void LiveProgress::say(std::string_view line) {
  std::string out;
  clear(out);
  out += visible_line(line) + '\n';
  draw(out);
  write_whole(STDERR_FILENO, out);
}

void LiveProgress::show_end(const RunProgress& run, const std::string& reason,
                            const std::filesystem::path& log) {
  const bool has_result =
      run.status == RunStatus::kFinished || run.status == RunStatus::kOutOfMemory;
  if (!has_result) say(end_line(run, reason, log));
}

void LiveProgress::refresh() {
  if (runs().empty() || ProgressClock::now() - drawn_at_ < kDrawInterval) return;
  std::string out;
  clear(out);
  draw(out);
  write_whole(STDERR_FILENO, out);
}

void LiveProgress::clear(std::string& out) {
  const size_t rows = rows_taken(drawn_widths_, terminal_size().columns);
  if (rows > 0) out += "\033[" + std::to_string(rows) + "A\r\033[J";
  drawn_widths_.clear();
}

void LiveProgress::draw(std::string& out) {
  if (runs().empty()) return;
  drawn_at_ = ProgressClock::now();
  for (const std::string& line :
       live_view(runs(), ended_order(), terminal_size(), drawn_at_, colour_)) {
    drawn_widths_.push_back(shown_width(line));
    out += line + '\n';
  }
}

}  // namespace fsdp
