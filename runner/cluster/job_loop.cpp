#include "runner/cluster/job_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <thread>
#include <utility>

#include "contract/spec/yaml_value.h"
#include "runner/cluster/open_jobs.h"
#include "runner/run/judgement.h"

namespace fsdp {
namespace {

constexpr std::chrono::milliseconds kLookInterval{1000};
constexpr std::chrono::seconds kLongestPause{60};
constexpr int kSlowestQueries = 20;  // times the shortest pause

int64_t newest_checkpoint_step(const Store& store, int64_t run, int attempt) {
  int64_t newest = 0;
  for (const auto& checkpoint : store.events<CheckpointDone>(run, attempt)) {
    newest = std::max(newest, checkpoint.body.step);
  }
  return newest;
}

// The number of attempts in a row, up to the newest, that the cluster ended.
int64_t ended_by_cluster_in_a_row(const Store& store, int64_t run) {
  EndedAttempts ended;
  for (const AttemptRecord& attempt : store.attempts(run)) {
    ended.add(attempt.status, newest_checkpoint_step(store, run, attempt.attempt));
  }
  return ended.in_a_row;
}

}  // namespace

Pauses real_pauses() {
  return {.now = std::chrono::steady_clock::now, .wait = [](std::chrono::milliseconds time) {
            std::this_thread::sleep_for(time);
            return false;
          }};
}

void QueuePatience::no_answer(TimePoint now, const std::string& problem, Progress& progress) {
  if (pause_ == std::chrono::seconds(0)) {
    progress.warn("Slurm does not answer: " + problem + "; fsdp-run asks it again");
    since_ = now;
  }
  pause_ = std::clamp(2 * pause_, std::chrono::seconds(1), kLongestPause);
  next_ = now + pause_;
}

std::chrono::seconds QueuePatience::lasted(TimePoint now) const {
  if (pause_ == std::chrono::seconds(0)) return pause_;
  return std::chrono::duration_cast<std::chrono::seconds>(now - since_);
}

void QueuePatience::answer(Progress& progress) {
  if (pause_ > std::chrono::seconds(0)) progress.say("Slurm answers again");
  pause_ = std::chrono::seconds(0);
  next_ = {};
}

JobLoop::JobLoop(const RunListeners& listeners, Queue& queue, JobSubmission& submission,
                 Settings settings, Pauses pauses)
    : listeners_(listeners),
      queue_(queue),
      submission_(submission),
      settings_(std::move(settings)),
      pauses_(std::move(pauses)),
      follower_(listeners, pauses_.now),
      results_patience_(&listeners.store, listeners.progress) {}

bool JobLoop::pick_up() {
  reopen_tasks(listeners_.store, settings_.experiment);
  if (listeners_.store.open_jobs(settings_.experiment).empty()) return true;
  for (;;) {
    try {
      confirm_submissions(listeners_, queue_, settings_.experiment, /*is_to_submit=*/true);
      pick_up_jobs(queue_.limits().cluster);
      return true;
    } catch (const QueueUnavailable& error) {
      patience_.no_answer(pauses_.now(), error.what(), listeners_.progress);
    }
    if (pauses_.wait(patience_.pause())) return false;
  }
}

void JobLoop::pick_up_jobs(const std::string& here) {
  const std::set<std::string> others = other_clusters(listeners_.store, here, settings_.experiment);
  if (!others.empty()) listeners_.progress.warn(left_alone(others));
  follow_open_jobs(follower_, listeners_, here, settings_.experiment);
  follower_.pass(ask());
}

bool JobLoop::submit(std::vector<RunRecord> runs) {
  for (const RunRecord& run : runs) expect(listeners_.progress, run);
  submission_.add(std::move(runs));
  for (;;) {
    std::chrono::milliseconds pause = kLookInterval;
    try {
      if (results_patience_.attempt([&] { push(); })) return true;
      is_stale_ = true;
    } catch (const QueueUnavailable& error) {
      if (!submission_.has_seen_slurm()) {
        throw QueueUnavailable(
            fmt::format("Slurm cannot be reached: {}; nothing was submitted; call again when "
                        "`sinfo` answers, or leave out --launcher slurm to run on this host",
                        error.what()));
      }
      submission_patience_.no_answer(pauses_.now(), error.what(), listeners_.progress);
      give_up_submitting(error.what());
      pause = submission_patience_.pause();
    }
    if (pauses_.wait(pause)) return false;
  }
}

// Throws QueueUnavailable if Slurm has not answered for too long.
void JobLoop::give_up_submitting(const std::string& problem) const {
  const std::chrono::seconds lasted = submission_patience_.lasted(pauses_.now());
  if (lasted < settings_.patience) return;
  throw QueueUnavailable(
      fmt::format("Slurm has not answered for {} s: {}; {} to be submitted; call again when "
                  "`sinfo` answers: jobs that Slurm has taken go on, and none is submitted twice",
                  lasted.count(), problem, counted(submission_.waiting(), "run")));
}

void JobLoop::push() {
  const auto follow_submitted = [&] {
    for (JobSubmission::Submission& submitted : submission_.take_submitted()) {
      follower_.follow(std::move(submitted.job), submitted.runs);
      next_query_ = pauses_.now();
      query_pause_ = settings_.query_interval;
    }
  };
  try {
    submission_.push();
  } catch (const std::exception&) {
    follow_submitted();
    throw;
  }
  follow_submitted();
  submission_patience_.answer(listeners_.progress);
}

ExitCode JobLoop::follow() {
  for (bool stop = false;; stop = pauses_.wait(kLookInterval)) {
    if (stop) return ExitCode::kInterrupted;
    const bool is_recorded = bring_up_to_date();
    listeners_.progress.refresh();
    const bool is_done = follower_.tasks().empty() && ended_.empty() && submission_.waiting() == 0;
    if (is_recorded && is_done) break;
  }
  return some_failed_ || submission_.some_refused() ? ExitCode::kRunFailed : ExitCode::kOk;
}

bool JobLoop::bring_up_to_date() {
  const bool is_recorded = results_patience_.attempt([&] {
    if (is_stale_) follow_open_jobs_again();
    if (pauses_.now() >= next_query_) {
      ask_and_submit();
    } else if (follower_.read_events()) {
      query_soon();
    }
  });
  is_stale_ = !is_recorded;
  if (is_recorded || !follower_.tasks().empty()) {
    results_patience_.runs_are_under_way();
  } else {
    results_patience_.wait_without_runs(/*user_waits=*/true);
  }
  return is_recorded;
}

// Follows the open jobs of the store again, like a new runner.
void JobLoop::follow_open_jobs_again() {
  listeners_.store.sync();
  listeners_.store.check_is_writable();
  follower_.forget();
  follow_open_jobs(follower_, listeners_, queue_.limits().cluster, settings_.experiment,
                   submission_.unanswered());
}

void JobLoop::query_soon() {
  query_pause_ = settings_.query_interval;
  next_query_ = std::min(next_query_, pauses_.now() + query_pause_);
}

void JobLoop::ask_and_submit() {
  next_query_ = pauses_.now() + query_pause_;
  follow_up_on_ended();
  std::ranges::move(follower_.pass(ask()), std::back_inserter(ended_));
  if (follower_.waits_for_files()) query_soon();
  const bool some_ended = !ended_.empty();
  follow_up_on_ended();
  submit_runs_left();
  const bool may_fit = !submission_.at_limit() || some_ended || pauses_.now() >= next_push_;
  if (submission_.waiting() == 0 || !may_fit || pauses_.now() < submission_patience_.next()) return;
  next_push_ = pauses_.now() + kLongestPause;
  try {
    push();
  } catch (const QueueUnavailable& error) {
    submission_patience_.no_answer(pauses_.now(), error.what(), listeners_.progress);
    give_up_submitting(error.what());
    next_push_ = submission_patience_.next();
  }
}

// Starts the runs that follow from ended runs.
void JobLoop::follow_up_on_ended() {
  for (; !ended_.empty(); ended_.pop_front()) after(ended_.front());
}

std::optional<std::vector<TaskState>> JobLoop::ask() {
  const TasksByUser tasks = follower_.tasks();
  if (tasks.empty()) return std::vector<TaskState>{};
  try {
    std::vector<TaskState> states = queue_.query(tasks);
    patience_.answer(listeners_.progress);
    note_changes(states);
    return states;
  } catch (const QueueUnavailable& error) {
    patience_.no_answer(pauses_.now(), error.what(), listeners_.progress);
    next_query_ = patience_.next();
    return std::nullopt;
  }
}

void JobLoop::note_changes(std::vector<TaskState> states) {
  for (TaskState& state : states) state.seconds_left.reset();
  query_pause_ = states == last_states_
                     ? std::min(2 * query_pause_, kSlowestQueries * settings_.query_interval)
                     : settings_.query_interval;
  last_states_ = std::move(states);
  next_query_ = pauses_.now() + query_pause_;
}

void JobLoop::after(const RunRecord& ended) {
  if (restart(ended)) return;
  some_failed_ |= !is_result(ended.status);
  if (!settings_.follow_up) return;
  std::optional<RunRecord> next = settings_.follow_up(ended, ended.status);
  if (!next || are_of_one_job(ended, *next)) return;  // the job continued the search by itself
  expect(listeners_.progress, *next);
  submission_.add({std::move(*next)});
}

bool JobLoop::are_of_one_job(const RunRecord& ended, const RunRecord& other) const {
  const std::vector<AttemptRecord> attempts = listeners_.store.attempts(ended.id);
  const std::vector<AttemptRecord> others = listeners_.store.attempts(other.id);
  return !attempts.empty() && std::ranges::find(others, attempts.back().slurm_job,
                                                &AttemptRecord::slurm_job) != others.end();
}

bool JobLoop::leave_to_job(const RunRecord& run) {
  if (!follower_.follows_family(run.family)) return false;
  left_to_jobs_.push_back(run);
  return true;
}

// Leaves out runs that a job has begun: after() continued with these.
void JobLoop::submit_runs_left() {
  std::erase_if(left_to_jobs_, [&](RunRecord& run) {
    if (follower_.follows_family(run.family)) return false;
    const bool was_begun = listeners_.store.run(run.id)->attempt > run.attempt;
    if (!was_begun) submission_.add({std::move(run)});
    return true;
  });
}

bool JobLoop::may_start_again(const RunRecord& run) const {
  return next_restart(run, 0, 0).has_value();
}

// After a time limit, a run is restarted only if it keeps checkpoints, or if its job never reached
// it. Such a run did not use up the time.
std::optional<int64_t> JobLoop::next_restart(const RunRecord& run, int64_t without_attempt,
                                             int64_t least) const {
  const int64_t attempts = ended_by_cluster_in_a_row(listeners_.store, run.id);
  const int64_t restart = std::max(attempts + without_attempt, least);
  const bool may_repeat = attempts == 0 || wants_checkpoints(run.spec);
  if (!is_to_restart(run.status, restart, run.spec.slurm.max_restarts, may_repeat)) {
    return std::nullopt;
  }
  return restart;
}

bool JobLoop::restart(const RunRecord& ended) {
  if (ended.status == RunStatus::kTimeLimit && settings_.has_own_time_limit) return false;
  const int attempt = listeners_.store.run(ended.id)->attempt;
  auto& [newest_attempt, without_attempt] = restarts_[ended.id];
  if (std::exchange(newest_attempt, attempt) != attempt) without_attempt = 0;
  const std::optional<int64_t> number = next_restart(ended, without_attempt, without_attempt + 1);
  if (!number) return false;
  ++without_attempt;
  listeners_.progress.say(fmt::format("{}: submitted again, restart {} of at most {}", ended.point,
                                      *number, ended.spec.slurm.max_restarts));
  RunRecord again = ended;
  again.begins_anew = ended.begins_anew && attempt == ended.attempt;
  submission_.add({std::move(again)});
  return true;
}

}  // namespace fsdp
