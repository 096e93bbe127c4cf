#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/progress/run_progress.h"

namespace fsdp {

// What a user sees of a sweep while it runs: the sweep reports here, derived classes show it.
class Progress {
 public:
  Progress() = default;
  virtual ~Progress() = default;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  virtual void say(std::string_view line) = 0;
  virtual void warn(std::string_view line) = 0;

  // A run that will start; `steps` is 0 where only the trainer knows.
  void expect(int64_t id, std::string point, int64_t ranks, int64_t steps);
  // One that was expected waits in this job of Slurm: for the first time, or again.
  void queued(int64_t id, std::string job);
  // One that was expected, or not.
  void started(int64_t id, std::string point, int64_t ranks, int64_t steps);
  // One list per rank, as EventTail::poll returns them.
  void add(int64_t id, std::span<const std::vector<Event>> events_of_ranks);
  // `log` is that of the rank which `reason` is about, empty: none.
  void ended(int64_t id, RunStatus status, std::string reason, std::filesystem::path log);
  // Shows what has changed, when that is due.
  virtual void refresh() = 0;
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

  // Of the run, which is new when it was not heard of.
  size_t index_of(int64_t id, std::string point, int64_t ranks, int64_t steps);

  std::vector<RunProgress> runs_;
  std::map<int64_t, size_t> index_of_id_;
  std::set<size_t> running_;
  std::vector<size_t> ended_order_;
};

enum class ProgressMode { kAutomatic, kQuiet, kJson };

// kAutomatic: a live view where stderr is a terminal that can show one, else lines.
std::unique_ptr<Progress> make_progress(ProgressMode mode);

}  // namespace fsdp
