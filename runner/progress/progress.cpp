// Shows a sweep while it goes on: live, as lines, as JSON, or not at all.
#include "runner/progress/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <regex>
#include <utility>

#include "base/system/log.h"
#include "base/system/standard_streams.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "contract/spec/yaml_value.h"
#include "runner/progress/live_view.h"
#include "runner/table/names.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

JsonObject line_of(std::string_view kind, const RunProgress& run) {
  return JsonObject().add("kind", kind).add("point", run.point);
}

void write(const JsonObject& line) { write_whole(STDOUT_FILENO, line.text() + '\n'); }

constexpr std::chrono::seconds kLineInterval{10};
constexpr int64_t kLinesPerRun = 10;

std::string as_line(std::string_view text) { return visible_line(text) + '\n'; }

constexpr std::chrono::milliseconds kDrawInterval{100};

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

size_t Progress::index_of(int64_t id, const RunProgress& run) {
  const auto [found, is_new] = index_of_id_.emplace(id, runs_.size());
  if (is_new) show(runs_.emplace_back(run));
  return found->second;
}

void Progress::queued(int64_t id, std::string job) {
  const size_t index = index_of_id_.at(id);
  RunProgress& run = runs_[index];
  running_.erase(index);
  std::erase(ended_order_, index);
  run.set_status(RunStatus::kQueued, ProgressClock::now());
  run.job = std::move(job);
  run.job_reason.clear();
  log(LogLevel::kInfo, "run", run.point + ": in job " + run.job);
  show(run);
}

void Progress::waits_because(int64_t id, std::string reason) {
  runs_[index_of_id_.at(id)].job_reason = std::move(reason);
}

void Progress::started(int64_t id, const RunProgress& expected) {
  const size_t index = index_of(id, expected);
  RunProgress& run = runs_[index];
  run.take_outline(expected);
  running_.insert(index);
  std::erase(ended_order_, index);
  run.started = ProgressClock::now();
  run.set_status(RunStatus::kRunning, *run.started);
  log(LogLevel::kInfo, "run", run.point + ": started");
  show(run);
}

void Progress::add(int64_t id, const AttemptReports& reports, const std::vector<bool>& begun,
                   std::span<const Event> events_of_rank_0) {
  RunProgress& run = runs_[index_of_id_.at(id)];
  run.take(reports, begun, ProgressClock::now());
  for (const Remark& remark : remarks(run.point, events_of_rank_0)) {
    log(remark.is_warning ? LogLevel::kWarning : LogLevel::kInfo, "run", remark.line);
    remark.is_warning ? warn(remark.line) : say(remark.line);
  }
}

void Progress::ended(int64_t id, RunStatus status, std::string reason,
                     std::filesystem::path log_of_rank) {
  const size_t index = index_of_id_.at(id);
  RunProgress& run = runs_[index];
  const ProgressClock::time_point now = ProgressClock::now();
  run.elapsed_s = std::chrono::duration<double>(now - run.started.value_or(now)).count();
  run.status = status;
  run.reason = std::move(reason);
  run.log = std::move(log_of_rank);
  running_.erase(index);
  ended_order_.push_back(index);
  log(LogLevel::kInfo, "run", end_line(run));
  show(run);
}

void Progress::refresh(ProgressClock::time_point now) {
  show_new_waits(now);
  update(now);
}

void Progress::show_new_waits(ProgressClock::time_point now) {
  std::vector<RunThatWaits> long_ones;
  for (size_t index = 0; index < runs_.size(); ++index) {
    const std::optional<Waiting> wait = waiting(runs_[index], now);
    if (!wait || !wait->is_long) continue;
    const std::pair which(wait->what, wait->since);
    const auto [shown, is_new] = shown_waits_.try_emplace(index, which);
    // Each wait is told once, however long it is.
    if (!is_new && std::exchange(shown->second, which) == which) continue;
    log(LogLevel::kInfo, "run", runs_[index].point + ": " + waiting_text(*wait, now));
    long_ones.push_back({&runs_[index], *wait});
  }
  if (!long_ones.empty()) show_waits(long_ones, now);
}

// --- the kinds ---

void JsonProgress::say(std::string_view line) {
  write(JsonObject().add("kind", "message").add("text", line));
}

void JsonProgress::warn(std::string_view line) {
  write(JsonObject().add("kind", "warning").add("text", line));
}

void JsonProgress::show(const RunProgress& run) {
  switch (run.status) {
    case RunStatus::kPlanned:
      return write(line_of("run_planned", run).add("ranks", run.ranks).add("steps", run.steps));
    case RunStatus::kQueued:
      return write(line_of("run_queued", run).add("job", run.job));
    case RunStatus::kRunning:
      return write(line_of("run_started", run));
    default:
      write(line_of("run_ended", run)
                .add("status", run.status)
                .add("reason", run.reason)
                .add("log", run.log)
                .add("step", run.attempt.step)
                .add("elapsed_s", run.elapsed_s));
  }
}

void JsonProgress::show_waits(std::span<const RunThatWaits> runs, ProgressClock::time_point now) {
  for (const auto& [run, waiting] : runs) {
    write(line_of("run_waits", *run)
              .add("for", waiting.what)
              .add("text", waiting.text)
              .add("seconds", std::chrono::duration<double>(now - waiting.since).count()));
  }
}

void JsonProgress::update(ProgressClock::time_point now) {
  for (const size_t index : running()) {
    const RunProgress& run = runs()[index];
    // A program wants each step once.
    if (run.attempt.step == 0 || run.attempt.step == shown_steps_[index]) continue;
    shown_steps_[index] = run.attempt.step;
    write(line_of("run_progress", run)
              .add("step", run.attempt.step)
              .add("steps", run.steps)
              .add("loss", run.attempt.loss)
              .add("step_time_ms", run.attempt.step_time_ms)
              .add("memory_allocated_bytes_max", run.attempt.memory_allocated_bytes_max)
              .add("seconds_left", seconds_left(run))
              .add("sweep_seconds_left", seconds_left(runs(), now)));
  }
}

void LineProgress::say(std::string_view line) { write_whole(STDERR_FILENO, as_line(line)); }

void LineProgress::show(const RunProgress& run) {
  if (run.status == RunStatus::kRunning) {
    last_lines_[run.point] = {.time = *run.started};
    say(fmt::format("{}: started{}{}, {}{}{}", run.point, run.job.empty() ? "" : ", job ", run.job,
                    counted(run.ranks, "rank"), run.steps > 0 ? ", " : "",
                    run.steps > 0 ? counted(run.steps, "step") : ""));
  } else if (run.status == RunStatus::kQueued && run.started) {  // not the first submission
    say(run.point + ": waits again, job " + run.job);
  } else if (run.has_ended()) {
    last_lines_.erase(run.point);
    say(end_line(run));
  }
}

void LineProgress::update(ProgressClock::time_point now) {
  for (const size_t index : running()) {
    const RunProgress& run = runs()[index];
    LastLine& last = last_lines_.at(run.point);
    const int64_t new_steps = run.attempt.step - last.step;
    // A log of a long sweep should not be flooded: few lines per run, and none too soon.
    if (now - last.time < kLineInterval || new_steps == 0 || new_steps * kLinesPerRun < run.steps) {
      continue;
    }
    last = {.time = now, .step = run.attempt.step};
    const std::optional<double> left = seconds_left(run);
    say(run.point + ": " + figures_text(run) + (left ? "  " + duration_text(*left) + " left" : ""));
  }
}

// Runs that wait for the same reason, such as jobs behind others in a queue, share a line.
void LineProgress::show_waits(std::span<const RunThatWaits> runs, ProgressClock::time_point now) {
  std::map<std::string, std::vector<std::string>> points;
  for (const auto& [run, waiting] : runs) {
    points[waiting_text(waiting, now)].push_back(run->point);
  }
  for (const auto& [text, names] : points) say(joined_names(names) + ": " + text);
}

void QuietProgress::warn(std::string_view line) { write_whole(STDERR_FILENO, as_line(line)); }

void QuietProgress::show(const RunProgress& run) {
  if (run.has_failed()) warn(end_line(run));
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
  // The terminal may have another width than when the rows were drawn.
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

std::unique_ptr<Progress> make_progress(ProgressMode mode) {
  if (mode == ProgressMode::kQuiet) return std::make_unique<QuietProgress>();
  if (mode == ProgressMode::kJson) return std::make_unique<JsonProgress>();
  if (TerminalLine::is_possible()) return std::make_unique<LiveProgress>();
  return std::make_unique<LineProgress>();
}

}  // namespace fsdp
