#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/contract/event.h"

// What a user sees of the runs while they run.
namespace fsdp {

// How far one run is, from the events of its ranks.
class RunProgress {
 public:
  RunProgress(std::string point, int64_t steps) : point_(std::move(point)), steps_(steps) {}

  // One list per rank, as EventTail::poll returns them.
  void add(std::span<const std::vector<Event>> events_of_ranks);

  int64_t step() const { return step_; }
  int64_t steps() const { return steps_; }
  const std::string& point() const { return point_; }
  // "37/100  loss 5.1234  12.3 it/s  812.0 MiB"; "starting" before the first step.
  std::string figures() const;
  // "  5s left"; empty when that is not known, or nothing is left.
  std::string time_left() const;

 private:
  void add(const StepDone& step);

  std::string point_;
  int64_t steps_;
  int64_t step_ = 0;
  std::optional<double> loss_;
  double step_time_ms_ = 0;  // recent steps weigh more
  int64_t memory_allocated_bytes_max_ = 0;
};

// What is worth a line of its own among what rank 0 reported: a warning, a resumption, evaluations,
// checkpoints.
std::vector<std::string> noteworthy(const std::string& point, std::span<const Event> events);

// One line for a terminal: the point's name and the run's figures in at most `width` columns, the
// name cut first.
std::string progress_line(const RunProgress& run, size_t width);

// "45s", "3m 05s", "2h 03m".
std::string duration_text(double seconds);

// Writes to stderr. On a terminal, one live line per running point below what was said; else plain
// lines: start, end, and between them one when 10 % and 10 s have passed since the last. What is
// noteworthy is said in either case.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  Progress();
  // Clears the live lines.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void say(std::string_view line);
  void started(int64_t id, std::string point, int64_t ranks, int64_t steps);
  // One list per rank, as EventTail::poll returns them.
  void add(int64_t id, std::span<const std::vector<Event>> events_of_ranks);
  // `outcome`: "finished", "failed: rank 2 killed by signal 9 (log: ...)".
  void ended(int64_t id, std::string_view outcome);
  // Brings the live lines up to date, or writes a plain line where one is due.
  void refresh();

 private:
  struct Running {
    RunProgress progress;
    Clock::time_point started;
    Clock::time_point last_line;
    int64_t last_line_step = 0;
  };

  void clear_live_lines(std::string& out);
  void draw_live_lines(std::string& out);
  void write(const std::string& text);

  bool is_terminal_;
  size_t live_lines_ = 0;
  std::map<int64_t, Running> running_;
};

}  // namespace fsdp
