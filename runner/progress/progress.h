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
#include "runner/progress/waiting.h"

namespace fsdp {

// What is known of a run before it starts.
struct RunOutline {
  std::string point;
  int64_t ranks = 1;
  int64_t steps = 0;            // 0: only the trainer knows
  double tokens_of_step = 1;    // that are computed one after another: of all ranks on the CPU
  int64_t evaluates_every = 0;  // steps; 0: not
  int64_t checkpoints_every = 0;
};

struct RunThatWaits {
  const RunProgress* run;
  Waiting waiting;
};

// What a user sees of a sweep while it runs: the sweep reports here, derived classes show it.
class Progress {
 public:
  Progress() = default;
  virtual ~Progress() = default;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  virtual void say(std::string_view line) = 0;
  virtual void warn(std::string_view line) = 0;

  // A run that will start.
  void expect(int64_t id, const RunOutline& outline);
  // One that was expected waits in this job of Slurm: for the first time, or again.
  void queued(int64_t id, std::string job);
  // Why one waits in its job, in Slurm's word.
  void waits_because(int64_t id, std::string reason);
  // One that was expected, or not.
  void started(int64_t id, const RunOutline& outline);
  // One list per rank, as EventTail::poll returns them, and which ranks have begun.
  void add(int64_t id, std::span<const std::vector<Event>> events_of_ranks,
           const std::vector<bool>& begun);
  // `log` is that of the rank which `reason` is about, empty: none.
  void ended(int64_t id, RunStatus status, std::string reason, std::filesystem::path log);
  // Shows what has changed, when that is due, and once what waits for long.
  void refresh() { refresh(ProgressClock::now()); }
  void refresh(ProgressClock::time_point now);
  // Nothing follows: takes back what is shown only for the time being.
  virtual void close() {}

 protected:
  // In the order in which they were first heard of.
  std::span<const RunProgress> runs() const { return runs_; }
  // Indices of those that are under way.
  const std::set<size_t>& running() const { return running_; }
  // Indices of those that ended, in that order.
  std::span<const size_t> ended_order() const { return ended_order_; }

 private:
  // Shows a run that has just come to its status.
  virtual void show(const RunProgress& run) = 0;
  virtual void update(ProgressClock::time_point now) = 0;
  // Shows runs that do no step for longer than is to be expected, each once.
  virtual void show_waits(std::span<const RunThatWaits>, ProgressClock::time_point) {}

  // Of the run, which is new when it was not heard of.
  size_t index_of(int64_t id, const RunOutline& outline);
  void tell_of_waits(ProgressClock::time_point now);

  std::vector<RunProgress> runs_;
  std::map<int64_t, size_t> index_of_id_;
  std::set<size_t> running_;
  std::vector<size_t> ended_order_;
  // What was told last of a run that waits, by its index.
  std::map<size_t, std::pair<WaitsFor, ProgressClock::time_point>> told_waits_;
};

enum class ProgressMode { kAutomatic, kQuiet, kJson };

// kAutomatic: a live view where stderr is a terminal that can show one, else lines.
std::unique_ptr<Progress> make_progress(ProgressMode mode);

}  // namespace fsdp
