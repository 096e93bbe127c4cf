#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/progress/run_progress.h"

namespace fsdp {

struct RunThatWaits {
  const RunProgress* run;
  Waiting waiting;
};

// Shows a sweep to the user while it runs. The loop over runs reports here, and derived classes
// show the reports.
class Progress {
 public:
  Progress() = default;
  virtual ~Progress() = default;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  virtual void say(std::string_view line) = 0;
  virtual void warn(std::string_view line) = 0;

  // Reports a run that will start. `run` has the members up to `checkpoints_every`.
  void expect(int64_t id, const RunProgress& run) { index_of(id, run); }
  // Reports that an expected run waits in this Slurm job, for the first time or again.
  void queued(int64_t id, std::string job);
  // Reports why a run waits in its job, in Slurm's words.
  void waits_because(int64_t id, std::string reason);
  // Reports that a run started. An earlier call of expect() is optional.
  void started(int64_t id, const RunProgress& run);
  // Reports how far an attempt is, which ranks have begun, and the new events of rank 0.
  void add(int64_t id, const AttemptReports& reports, const std::vector<bool>& begun,
           std::span<const Event> events_of_rank_0);
  // Reports a run's end. `log` belongs to the rank that `reason` is about; empty: none.
  void ended(int64_t id, RunStatus status, std::string reason, std::filesystem::path log);
  // Shows changes when they are due, and each long wait once.
  void refresh() { refresh(ProgressClock::now()); }
  void refresh(ProgressClock::time_point now);
  // Ends the reports. Removes everything that is shown only temporarily.
  virtual void close() {}

 protected:
  // Returns the runs in the order of their first report.
  std::span<const RunProgress> runs() const { return runs_; }
  // Returns the indices of running runs.
  const std::set<size_t>& running() const { return running_; }
  // Returns the indices of ended runs, in the order of their ends.
  std::span<const size_t> ended_order() const { return ended_order_; }

 private:
  // Shows a run after a change of its status.
  virtual void show(const RunProgress& run) = 0;
  virtual void update(ProgressClock::time_point now) = 0;
  // Shows runs that do no step for longer than expected. Each wait is passed once.
  virtual void show_waits(std::span<const RunThatWaits>, ProgressClock::time_point) {}

  // Returns the run's index. Adds and shows the run if it is new.
  size_t index_of(int64_t id, const RunProgress& run);
  void show_new_waits(ProgressClock::time_point now);

  std::vector<RunProgress> runs_;
  std::map<int64_t, size_t> index_of_id_;
  std::set<size_t> running_;
  std::vector<size_t> ended_order_;
  // The last reported wait of each run, by the run's index.
  std::map<size_t, std::pair<WaitsFor, ProgressClock::time_point>> shown_waits_;
};

// --- the ways to show a sweep while it runs ---

// Prints to stdout for a program that drives this one. Each line is a JSON object with a `kind`:
//
//   message, warning  text
//   run_planned       point, ranks, steps (0: only the trainer knows). Once per run, before
//                     run_queued and run_started.
//   run_queued        point, job. The run waits in this Slurm job, for the first time or again.
//   run_started       point
//   run_progress      point, step, steps, loss, step_time_ms, memory_allocated_bytes_max,
//                     seconds_left, sweep_seconds_left. The run did a step since the last line.
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

// Prints lines to stderr: messages, and the start and end of each run. It prints a line about a run
// whenever 10 % of the run's steps and 10 s have passed since its last line. A long wait has a line
// too.
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
  std::map<std::string, LastLine> last_lines_;  // of running runs, by point
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

enum class ProgressMode { kAutomatic, kQuiet, kJson };

// kAutomatic: a live view if stderr is a terminal that supports it, else lines.
std::unique_ptr<Progress> make_progress(ProgressMode mode);

}  // namespace fsdp
