#include "runner/progress/progress.h"

#include <unistd.h>

#include <cstdlib>

#include "contract/record/log.h"
#include "runner/progress/json_progress.h"
#include "runner/progress/line_progress.h"
#include "runner/progress/live_progress.h"

namespace fsdp {

size_t Progress::index_of(int64_t id, std::string point, int64_t ranks, int64_t steps) {
  const auto [found, is_new] = index_of_id_.emplace(id, runs_.size());
  if (is_new) {
    runs_.push_back({.point = std::move(point), .ranks = ranks, .steps = steps});
    show(runs_.back());
  }
  return found->second;
}

void Progress::expect(int64_t id, std::string point, int64_t ranks, int64_t steps) {
  index_of(id, std::move(point), ranks, steps);
}

void Progress::queued(int64_t id, std::string job) {
  const size_t index = index_of_id_.at(id);
  RunProgress& run = runs_[index];
  running_.erase(index);
  std::erase(ended_order_, index);
  run.status = RunStatus::kQueued;
  run.job = std::move(job);
  log(LogLevel::kInfo, "run", run.point + ": in job " + run.job);
  show(run);
}

void Progress::started(int64_t id, std::string point, int64_t ranks, int64_t steps) {
  const size_t index = index_of(id, std::move(point), ranks, steps);
  RunProgress& run = runs_[index];
  running_.insert(index);
  std::erase(ended_order_, index);
  run.status = RunStatus::kRunning;
  run.started = ProgressClock::now();
  log(LogLevel::kInfo, "run", run.point + ": started");
  show(run);
}

void Progress::add(int64_t id, std::span<const std::vector<Event>> events_of_ranks) {
  RunProgress& run = runs_[index_of_id_.at(id)];
  run.add(events_of_ranks);
  if (events_of_ranks.empty()) return;
  for (const Remark& remark : remarks(run.point, events_of_ranks.front())) {
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

std::unique_ptr<Progress> make_progress(ProgressMode mode) {
  if (mode == ProgressMode::kQuiet) return std::make_unique<QuietProgress>();
  if (mode == ProgressMode::kJson) return std::make_unique<JsonProgress>();
  const char* terminal = std::getenv("TERM");
  const bool can_move = terminal == nullptr || std::string_view(terminal) != "dumb";
  if (isatty(STDERR_FILENO) == 1 && can_move) return std::make_unique<LiveProgress>();
  return std::make_unique<LineProgress>();
}

}  // namespace fsdp
