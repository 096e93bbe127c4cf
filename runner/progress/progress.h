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

// The facts that are known about a run before it starts.
struct RunOutline {
  std::string point;
  int64_t ranks = 1;
  int64_t steps = 0;            // 0: only the trainer knows
  double tokens_of_step = 1;    // of one rank on GPUs, of all ranks on the CPU
  int64_t evaluates_every = 0;  // steps; 0: never
  int64_t checkpoints_every = 0;
};

struct RunThatWaits {
  const RunProgress* run;
  Waiting waiting;
};

// Shows a sweep to the user while it runs. The sweep reports here, and derived classes show it.
class Progress {
 public:
  Progress() = default;
  virtual ~Progress() = default;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  virtual void say(std::string_view line) = 0;
  virtual void warn(std::string_view line) = 0;

  // Reports a run that will start.
  void expect(int64_t id, const RunOutline& outline);
  // Reports that an expected run waits in this Slurm job, for the first time or again.
  void queued(int64_t id, std::string job);
  // Reports why a run waits in its job, in Slurm's words.
  void waits_because(int64_t id, std::string reason);
  // Reports that a run started. A call of expect() before is optional.
  void started(int64_t id, const RunOutline& outline);
  // Reports which ranks have begun, and new events: a list per rank, as EventTail::poll returns
  // them.
  void add(int64_t id, std::span<const std::vector<Event>> events_of_ranks,
           const std::vector<bool>& begun);
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
  size_t index_of(int64_t id, const RunOutline& outline);
  void show_new_waits(ProgressClock::time_point now);

  std::vector<RunProgress> runs_;
  std::map<int64_t, size_t> index_of_id_;
  std::set<size_t> running_;
  std::vector<size_t> ended_order_;
  // The last reported wait of each run, by the run's index.
  std::map<size_t, std::pair<WaitsFor, ProgressClock::time_point>> shown_waits_;
};

enum class ProgressMode { kAutomatic, kQuiet, kJson };

// kAutomatic: a live view if stderr is a terminal that supports it, else lines.
std::unique_ptr<Progress> make_progress(ProgressMode mode);

}  // namespace fsdp
