// Draws a sweep's runs as rows of a terminal, and the last line of one.
#include "runner/progress/live_view.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ranges>

#include "base/system/standard_streams.h"
#include "base/text/utf8.h"
#include "runner/table/number_text.h"
#include "runner/table/table.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

constexpr size_t kNarrowestWidth = 20;
constexpr size_t kNarrowestName = 16;
constexpr size_t kWidestName = 48;
constexpr size_t kBarWidth = 13;  // as wide as "out_of_memory", which the column may contain
constexpr std::string_view kCyan = "\033[36m";
constexpr std::string_view kErasedLine = "\r\033[K";

// The places of a row's cells.
enum Place : size_t { kName, kState, kSteps, kStepTime, kMemory, kLoss, kTime, kWait, kCellCount };

// Returns the columns. On a narrow terminal the column with `drop_order` 1 is left out first.
// Columns without a `drop_order` stay.
std::vector<Column> columns_of_view() {
  return {{.is_left = true, .least = 1, .first_cut_to = kNarrowestName},
          {.is_left = true},
          {.drop_order = 4},
          {.drop_order = 2},
          {.drop_order = 3},
          {.is_left = true, .drop_order = 1},
          {.drop_order = 5},
          {.is_left = true, .least = 10, .first_cut_to = 24}};
}

double part_done(const RunProgress& run) {
  if (run.has_ended()) return 1;
  if (run.steps == 0) return 0;
  return std::clamp(static_cast<double>(run.attempt.step) / static_cast<double>(run.steps), 0.0,
                    1.0);
}

std::string state_text(const RunProgress& run) {
  if (run.status != RunStatus::kRunning) return std::string(name_of(run.status));
  if (!run.has_stepped()) return std::string(start_text(run));
  return run.steps == 0 ? "running" : bar(part_done(run), kBarWidth);
}

std::vector<Cell> cells_of(const RunProgress& run, ProgressClock::time_point now) {
  std::vector<Cell> cells(kCellCount);
  cells[kName] = display_cut(run.point, kWidestName);
  cells[kState] = state_text(run);
  if (run.has_ended()) {
    cells[kTime] = duration_text(run.elapsed_s);
  } else if (const std::optional<double> left = seconds_left(run)) {
    cells[kTime] = duration_text(*left) + " left";
  } else if (run.status == RunStatus::kRunning) {
    cells[kTime] =
        duration_text(std::chrono::duration<double>(now - run.started.value_or(now)).count());
  } else if (!run.job.empty()) {
    cells[kTime] = "job " + visible_line(run.job);
  }
  if (const auto wait = waiting(run, now); wait && wait->is_long) {
    if (wait->what != WaitsFor::kQueue) cells[kTime] = "";
    cells[kWait] = waiting_text(*wait, now);
  } else if (run.status == RunStatus::kQueued && !run.job_reason.empty()) {
    cells[kWait] = '(' + run.job_reason + ')';
  }
  if (run.attempt.step == 0) return cells;
  cells[kSteps] = steps_text(run);
  cells[kStepTime] = three_digits(run.attempt.step_time_ms) + " ms";
  cells[kMemory] = gibibytes_text(run.attempt.memory_allocated_bytes_max);
  cells[kLoss] = (run.attempt.loss ? "loss " : "") + loss_text(run.attempt.loss);
  return cells;
}

// Returns the runs that have a row: all, or at most `room`.
std::vector<size_t> chosen_runs(std::span<const RunProgress> runs,
                                std::span<const size_t> ended_order, size_t room) {
  std::vector<size_t> chosen, running, planned;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs.size() <= room) chosen.push_back(i);
    if (runs[i].status == RunStatus::kRunning && running.size() < room) running.push_back(i);
    if (runs[i].is_waiting() && planned.size() < room) planned.push_back(i);
  }
  if (runs.size() <= room) return chosen;
  const size_t rest = room - running.size();
  const size_t next =
      std::min(planned.size(), std::max(rest / 2, rest - std::min(rest, ended_order.size())));
  std::ranges::copy(ended_order.last(std::min(ended_order.size(), rest - next)),
                    std::back_inserter(chosen));
  std::ranges::copy(running, std::back_inserter(chosen));
  std::ranges::copy(planned | std::views::take(next), std::back_inserter(chosen));
  return chosen;
}

std::string_view colour_of_state(const RunProgress& run) {
  if (run.status == RunStatus::kRunning) return kCyan;
  if (run.is_waiting()) return kDim;
  return colour_of(run.status);
}

std::string count_line(std::span<const RunProgress> runs, ProgressClock::time_point now,
                       size_t width) {
  const auto ended = std::ranges::count_if(runs, &RunProgress::has_ended);
  const auto failed = std::ranges::count_if(runs, &RunProgress::has_failed);
  const auto running = std::ranges::count(runs, RunStatus::kRunning, &RunProgress::status);
  double done = 0;
  for (const RunProgress& run : runs) done += part_done(run);
  const double part = runs.empty() ? 0 : done / static_cast<double>(runs.size());
  std::string counts = fmt::format("{} of {} ended", ended, runs.size());
  if (failed > 0) counts += fmt::format(", {} failed", failed);
  if (running > 0) counts += fmt::format(", {} running", running);
  const std::optional<double> left = seconds_left(runs, now);
  const std::string time =
      left && ended < std::ssize(runs) ? "about " + duration_text(*left) + " left" : "";
  const std::string percent = fmt::format("{} %", static_cast<int>(part * 100));
  for (const std::string& line :
       {counts + "  " + bar(part, 2 * kBarWidth) + ' ' + percent + "  " + time,
        counts + "  " + percent + "  " + time, counts + "  " + time}) {
    if (display_width(line) <= width) return line.substr(0, line.find_last_not_of(' ') + 1);
  }
  return display_cut(counts, width);
}

}  // namespace

std::vector<std::string> live_view(std::span<const RunProgress> runs,
                                   std::span<const size_t> ended_order, TerminalSize size,
                                   ProgressClock::time_point now, bool colour) {
  const size_t width = std::max(size.columns, kNarrowestWidth) - 1;
  const size_t room = std::max<size_t>(size.lines, 4) - 2;  // the count line, the cursor's line
  const std::vector<size_t> chosen = chosen_runs(runs, ended_order, room);
  Table table{.columns = columns_of_view()};
  for (const size_t i : chosen) {
    table.add(cells_of(runs[i], now)).cells[kState].style = colour_of_state(runs[i]);
  }
  std::vector<std::string> lines = lay_out(table, {.width = width, .colour = colour}).rows;
  lines.push_back(count_line(runs, now, width));
  return lines;
}

std::string bar(double part, size_t width) {
  const size_t inside = width - 2;
  const auto filled = static_cast<size_t>(part * static_cast<double>(inside));
  std::string text(filled, '=');
  if (filled < inside) text += '>';
  text.resize(inside, ' ');
  return '[' + text + ']';
}

TerminalSize terminal_size() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {.columns = size.ws_col, .lines = size.ws_row == 0 ? TerminalSize{}.lines : size.ws_row};
}

size_t rows_taken(std::span<const size_t> widths, size_t columns) {
  size_t rows = 0;
  for (const size_t width : widths) rows += std::max<size_t>(1, (width + columns - 1) / columns);
  return rows;
}

bool TerminalLine::is_possible() {
  const char* terminal = std::getenv("TERM");
  const bool can_erase = terminal == nullptr || std::string_view(terminal) != "dumb";
  return isatty(STDERR_FILENO) == 1 && can_erase;
}

TerminalLine::~TerminalLine() {
  if (is_drawn_) write_whole(STDERR_FILENO, kErasedLine);
}

void TerminalLine::draw(std::string_view messages, std::string_view text) {
  write_whole(STDERR_FILENO, fmt::format("{}{}{}", kErasedLine, messages, text));
  is_drawn_ = true;
}

void PrepareBar::show(int64_t read_bytes, int64_t all_bytes) {
  constexpr int64_t kWidth = 20;
  constexpr size_t kMostOfName = 20;
  if (!TerminalLine::is_possible()) return;
  const std::string name = visible_line(shortened(name_, kMostOfName));
  if (all_bytes == 0) return line_.draw("", "waiting for another process that tokenizes " + name);
  const int64_t filled = std::clamp<int64_t>(read_bytes * kWidth / all_bytes, 0, kWidth);
  line_.draw("", fmt::format("tokenizing {} [{:{}}] {:3} %", name,
                             std::string(static_cast<size_t>(filled), '#'), kWidth,
                             read_bytes * 100 / all_bytes));
}

}  // namespace fsdp
