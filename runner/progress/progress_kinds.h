#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "runner/progress/live_view.h"
#include "runner/progress/progress.h"

// The ways to show a sweep while it runs: JSON for programs, lines, few lines, and a live view.
namespace fsdp {

// Prints to stdout for a program that drives this one. Each line is a JSON object with a `kind`:
//
//   message, warning  text
//   run_planned       point, ranks, steps (0: only the trainer knows). Once per run, before
//                     run_queued and run_started.
//   run_queued        point, job. The run waits in this Slurm job, for the first time or again.
//   run_started       point
//   run_progress      point, step, steps, loss, step_time_ms, memory_allocated_bytes_max,
//                     seconds_left, sweep_seconds_left. The run did a step since the last one.
//   run_waits         point, for (queue, ranks, loading, first_step, step, evaluation, checkpoint,
//                     end), text, seconds. The run does no step for longer than expected. Once per
//                     wait.
//   run_ended         point, status, reason, log, step, elapsed_s
//
// Unknown figures are null.
class JsonProgress : public Progress {
 public:
  void say(std::string_view line) override;
  void warn(std::string_view line) override;

 private:
  void show(const RunProgress& run) override;
  void update(ProgressClock::time_point now) override;
  void show_waits(std::span<const RunThatWaits> runs, ProgressClock::time_point now) override;

  std::map<size_t, int64_t> shown_steps_;  // by the run's index
};

// Prints lines to stderr: messages, and the start and end of each run. Between them, a run has a
// line after at least 10 % of its steps and 10 s. A long wait has a line too.
class LineProgress : public Progress {
 public:
  void say(std::string_view line) override;
  void warn(std::string_view line) override { say(line); }

 private:
  void show(const RunProgress& run) override;
  void update(ProgressClock::time_point now) override;
  void show_waits(std::span<const RunThatWaits> runs, ProgressClock::time_point now) override;

  struct LastLine {
    ProgressClock::time_point time;
    int64_t step = 0;
  };
  std::map<std::string, LastLine> last_lines_;  // of the runs under way, by their point
};

// Prints only warnings and the ends of failed runs.
class QuietProgress : public Progress {
 public:
  void say(std::string_view) override {}
  void warn(std::string_view line) override;

 private:
  void show(const RunProgress& run) override;
  void update(ProgressClock::time_point) override {}
};

// Draws the live view on the terminal of stderr, below the messages. It is drawn a few times a
// second, in the terminal's current size. Runs that fail have a message too.
class LiveProgress : public Progress {
 public:
  LiveProgress();
  ~LiveProgress() override;

  void say(std::string_view line) override;
  void warn(std::string_view line) override { say(line); }
  // Clears the live view.
  void close() override;

 private:
  void show(const RunProgress& run) override;
  void update(ProgressClock::time_point now) override;
  // Return the text that removes the view from the terminal, and the text that draws it.
  std::string cleared();
  std::string drawn(ProgressClock::time_point now);

  bool colour_;
  std::vector<size_t> drawn_widths_;  // of the lines on the terminal
  ProgressClock::time_point drawn_at_{};
};

// Returns the number of rows that lines of these widths take on a terminal of `columns` columns.
// Lines wrap if the terminal has become narrower.
size_t rows_taken(std::span<const size_t> widths, size_t columns);

}  // namespace fsdp
