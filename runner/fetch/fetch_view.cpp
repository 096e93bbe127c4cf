#include "runner/fetch/fetch_view.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "contract/record/standard_streams.h"
#include "contract/text/utf8.h"
#include "runner/progress/run_progress.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

constexpr std::chrono::seconds kLineInterval{15};
constexpr std::chrono::seconds kMeasureInterval{1};
constexpr double kNewShare = 0.3;  // of a measurement in the smoothed speed
constexpr size_t kBarInside = 16;
constexpr std::string_view kEraseLine = "\r\033[K";

bool can_draw() {
  const char* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 &&
         (terminal == nullptr || std::string_view(terminal) != "dumb");
}

size_t terminal_columns() {
  winsize size{};
  constexpr size_t kUsual = 80;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 ? kUsual : size.ws_col;
}

}  // namespace

FetchView::FetchView(FetchProgress& progress) : progress_(progress), is_terminal_(can_draw()) {}

FetchView::~FetchView() {
  if (is_drawn_) write_whole(STDERR_FILENO, kEraseLine);
}

std::string FetchView::figures(Clock::time_point now) {
  const int64_t done = progress_.done_bytes;
  const int64_t all = progress_.all_bytes;
  const std::chrono::duration<double> since = now - measured_at_;
  if (since >= kMeasureInterval) {
    const double speed =
        static_cast<double>(std::max<int64_t>(done - measured_bytes_, 0)) / since.count();
    bytes_per_s_ = bytes_per_s_ == 0 ? speed : bytes_per_s_ + kNewShare * (speed - bytes_per_s_);
    measured_at_ = now;
    measured_bytes_ = done;
  }
  std::string text = fmt::format("{} of {}", memory_text(done), memory_text(all));
  if (bytes_per_s_ >= 1) {
    text += fmt::format("  {}/s  {} left", memory_text(static_cast<int64_t>(bytes_per_s_)),
                        duration_text(static_cast<double>(all - done) / bytes_per_s_));
  }
  return text;
}

std::string FetchView::bar_line(Clock::time_point now) {
  if (progress_.all_files == 0) return "asking the hub";
  const int64_t all = progress_.all_bytes;
  const double part =
      all == 0 ? 1.0 : static_cast<double>(progress_.done_bytes) / static_cast<double>(all);
  const auto filled = static_cast<size_t>(std::clamp(part, 0.0, 1.0) * kBarInside);
  std::string bar(filled, '=');
  if (filled < kBarInside) bar += '>';
  bar.resize(kBarInside, ' ');
  return fmt::format("[{}] {}/{} files  {}", bar, progress_.done_files.load(),
                     progress_.all_files.load(), figures(now));
}

void FetchView::refresh() {
  const Clock::time_point now = Clock::now();
  std::string text;
  for (const std::string& line : progress_.take_lines()) {
    text += visible_line(line) + '\n';
  }
  if (is_terminal_) {
    const size_t columns = terminal_columns();
    text += display_cut(bar_line(now), columns > 1 ? columns - 1 : 1);
    write_whole(STDERR_FILENO, std::string(kEraseLine) + text);
    is_drawn_ = true;
    return;
  }
  if (progress_.all_files > 0 && now - said_at_ >= kLineInterval) {
    said_at_ = now;
    text += figures(now) + '\n';
  }
  write_whole(STDERR_FILENO, text);
}

}  // namespace fsdp
