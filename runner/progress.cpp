#include "runner/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>

namespace fsdp {
namespace {

constexpr double kRecentStepWeight = 0.2;
constexpr std::chrono::seconds kPlainLineInterval{10};
constexpr int64_t kPlainLinesPerRun = 10;
constexpr size_t kNarrowestWidth = 20;

template <typename... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

std::string memory_text(int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? formatted("%.1f MiB", mib) : formatted("%.2f GiB", mib / 1024);
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

size_t columns_of(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues_character(c); }));
}

// The first `columns` characters of UTF-8 text, control characters shown as '?'.
std::string cut(std::string_view text, size_t columns) {
  std::string shown;
  for (const char c : text) {
    if (!continues_character(c) && columns-- == 0) break;
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  }
  return shown;
}

std::string evaluation_text(const EvaluationDone& evaluation) {
  std::string text = ": step " + std::to_string(evaluation.step) + "  validation loss ";
  text += evaluation.loss ? formatted("%.4f", *evaluation.loss) : "not finite";
  return text + formatted("  accuracy %.1f %%", 100 * evaluation.token_accuracy);
}

std::string checkpoint_text(const CheckpointDone& checkpoint) {
  return ": step " + std::to_string(checkpoint.step) + "  checkpoint " + checkpoint.path + "  " +
         memory_text(checkpoint.size_bytes) +
         formatted("  %.1f s", checkpoint.write_time_ms / 1000);
}

size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return std::max<size_t>(size.ws_col, kNarrowestWidth);
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole < 60) return formatted("%lds", whole);
  if (whole < 3600) return formatted("%ldm %02lds", whole / 60, whole % 60);
  return formatted("%ldh %02ldm", whole / 3600, whole / 60 % 60);
}

void RunProgress::add(std::span<const std::vector<Event>> events_of_ranks) {
  for (size_t rank = 0; rank < events_of_ranks.size(); ++rank) {
    for (const Event& event : events_of_ranks[rank]) {
      if (const auto* started = std::get_if<RunStarted>(&event.body)) {
        steps_ = started->steps_planned;
      } else if (const auto* step = std::get_if<StepDone>(&event.body)) {
        memory_allocated_bytes_max_ =
            std::max(memory_allocated_bytes_max_, step->memory_allocated_bytes_max);
        if (rank == 0) add(*step);
      }
    }
  }
}

void RunProgress::add(const StepDone& step) {
  step_ = step.step;
  loss_ = step.loss;
  step_time_ms_ = step_time_ms_ == 0
                      ? step.step_time_ms
                      : step_time_ms_ + kRecentStepWeight * (step.step_time_ms - step_time_ms_);
}

std::string RunProgress::figures() const {
  if (step_ == 0) return "starting";
  std::string text = std::to_string(step_) + '/' + std::to_string(steps_);
  text += loss_ ? formatted("  loss %.4f", *loss_) : "  loss not finite";
  if (step_time_ms_ > 0) text += formatted("  %.3g it/s", 1000 / step_time_ms_);
  return text + "  " + memory_text(memory_allocated_bytes_max_);
}

std::string RunProgress::time_left() const {
  if (step_time_ms_ == 0 || step_ >= steps_) return "";
  return "  " + duration_text(static_cast<double>(steps_ - step_) * step_time_ms_ / 1000) + " left";
}

std::vector<std::string> noteworthy(const std::string& point, std::span<const Event> events) {
  std::vector<std::string> lines;
  for (const Event& event : events) {
    if (const auto* started = std::get_if<RunStarted>(&event.body)) {
      if (started->resumed_from_step > 0) {
        lines.push_back(point + ": resumed from step " +
                        std::to_string(started->resumed_from_step));
      }
      if (!started->warning.empty()) lines.push_back(point + ": warning: " + started->warning);
    } else if (const auto* evaluation = std::get_if<EvaluationDone>(&event.body)) {
      lines.push_back(point + evaluation_text(*evaluation));
    } else if (const auto* checkpoint = std::get_if<CheckpointDone>(&event.body)) {
      lines.push_back(point + checkpoint_text(*checkpoint));
    }
  }
  return lines;
}

std::string progress_line(const RunProgress& run, size_t width) {
  const std::string figures = run.figures() + run.time_left();
  const size_t name_width = std::max<int64_t>(
      8, static_cast<int64_t>(width) - static_cast<int64_t>(columns_of(figures)) - 2);
  return cut(cut(run.point(), name_width) + "  " + figures, width);
}

Progress::Progress() : is_terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  std::string out;
  clear_live_lines(out);
  write(out);
}

void Progress::say(std::string_view line) {
  std::string out;
  clear_live_lines(out);
  out += cut(line, line.size()) + '\n';
  draw_live_lines(out);
  write(out);
}

void Progress::started(int64_t id, std::string point, int64_t ranks, int64_t steps) {
  const Clock::time_point now = Clock::now();
  const std::string line = point + ": started, " + std::to_string(ranks) +
                           (ranks == 1 ? " rank" : " ranks") +
                           (steps > 0 ? ", " + std::to_string(steps) + " steps" : "");
  running_.insert_or_assign(
      id,
      Running{.progress = RunProgress(std::move(point), steps), .started = now, .last_line = now});
  if (is_terminal_) {
    refresh();
  } else {
    say(line);
  }
}

void Progress::add(int64_t id, std::span<const std::vector<Event>> events_of_ranks) {
  RunProgress& progress = running_.at(id).progress;
  progress.add(events_of_ranks);
  if (events_of_ranks.empty()) return;
  for (const std::string& line : noteworthy(progress.point(), events_of_ranks.front())) say(line);
}

void Progress::ended(int64_t id, std::string_view outcome) {
  const auto run = running_.extract(id);
  const Running& ended = run.mapped();
  const double seconds = std::chrono::duration<double>(Clock::now() - ended.started).count();
  say(ended.progress.point() + ": " + std::string(outcome) + ", " +
      (ended.progress.step() == 0 ? "no step" : ended.progress.figures()) + ", " +
      duration_text(seconds));
}

void Progress::refresh() {
  if (is_terminal_) {
    std::string out;
    clear_live_lines(out);
    draw_live_lines(out);
    return write(out);
  }
  const Clock::time_point now = Clock::now();
  for (auto& [id, run] : running_) {
    const int64_t new_steps = run.progress.step() - run.last_line_step;
    if (now - run.last_line < kPlainLineInterval || new_steps == 0 ||
        new_steps * kPlainLinesPerRun < run.progress.steps()) {
      continue;
    }
    run.last_line = now;
    run.last_line_step = run.progress.step();
    say(run.progress.point() + ": " + run.progress.figures() + run.progress.time_left());
  }
}

void Progress::clear_live_lines(std::string& out) {
  if (live_lines_ > 0) out += "\033[" + std::to_string(live_lines_) + "A\r\033[J";
  live_lines_ = 0;
}

void Progress::draw_live_lines(std::string& out) {
  if (!is_terminal_) return;
  const size_t width = terminal_width();
  for (const auto& [id, run] : running_) {
    out += progress_line(run.progress, width - 1) + '\n';
    ++live_lines_;
  }
}

void Progress::write(const std::string& text) {
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody reads: the runs go on
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace fsdp
