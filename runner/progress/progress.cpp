#include "runner/progress/progress.h"

#include <utility>

#include "base/system/log.h"

namespace fsdp {

size_t Progress::index_of(int64_t id, const RunOutline& outline) {
  const auto [found, is_new] = index_of_id_.emplace(id, runs_.size());
  if (is_new) {
    runs_.push_back({.point = outline.point,
                     .ranks = outline.ranks,
                     .steps = outline.steps,
                     .tokens_of_step = outline.tokens_of_step,
                     .evaluates_every = outline.evaluates_every,
                     .checkpoints_every = outline.checkpoints_every});
    show(runs_.back());
  }
  return found->second;
}

void Progress::expect(int64_t id, const RunOutline& outline) { index_of(id, outline); }

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

void Progress::started(int64_t id, const RunOutline& outline) {
  const size_t index = index_of(id, outline);
  RunProgress& run = runs_[index];
  running_.insert(index);
  std::erase(ended_order_, index);
  run.started = ProgressClock::now();
  run.set_status(RunStatus::kRunning, *run.started);
  log(LogLevel::kInfo, "run", run.point + ": started");
  show(run);
}

void Progress::add(int64_t id, std::span<const std::vector<Event>> events_of_ranks,
                   const std::vector<bool>& begun) {
  RunProgress& run = runs_[index_of_id_.at(id)];
  const ProgressClock::time_point now = ProgressClock::now();
  run.add_begun(begun, now);
  run.add(events_of_ranks, now);
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
    if (!is_new && std::exchange(shown->second, which) == which) continue;
    log(LogLevel::kInfo, "run", runs_[index].point + ": " + waiting_text(*wait, now));
    long_ones.push_back({&runs_[index], *wait});
  }
  if (!long_ones.empty()) show_waits(long_ones, now);
}

}  // namespace fsdp
