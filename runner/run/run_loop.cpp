// Begins and ends attempts, in files only. An index that cannot be written never stops a run.
#include "runner/run/run_loop.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <ranges>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/system/unix_time.h"
#include "base/text/config_error.h"
#include "contract/record/run_paths.h"
#include "runner/run/attempt.h"
#include "runner/run/attempt_files.h"
#include "runner/run/predictions.h"
#include "runner/store/results_unavailable.h"

namespace fsdp {

StopSignals::StopSignals() {
  sigemptyset(&signals_);
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    struct sigaction action {};
    sigaction(signal_number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&signals_, signal_number);
  }
  sigprocmask(SIG_BLOCK, &signals_, &previous_mask_);
}

StopSignals::~StopSignals() {
  while (take() != 0) {  // a late signal must not end the program
  }
  const bool is_told_next = std::uncaught_exceptions() > 0;  // the error is reported next
  if (!is_told_next) sigprocmask(SIG_SETMASK, &previous_mask_, nullptr);
}

int StopSignals::take(std::chrono::milliseconds patience) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
  const std::chrono::nanoseconds rest = patience - seconds;
  const timespec wait{.tv_sec = seconds.count(), .tv_nsec = rest.count()};
  return std::max(sigtimedwait(&signals_, nullptr, &wait), 0);
}

namespace {

// Shorter failures, such as those while a report is being made, are not reported.
constexpr std::chrono::seconds kNotTold{2};
constexpr std::chrono::minutes kBetweenReminders{5};
constexpr std::chrono::minutes kLongestWithoutRuns{10};

class ShortLockWait {
 public:
  explicit ShortLockWait(Store* store) : store_(store) {
    if (store_) store_->set_lock_wait(std::chrono::milliseconds(250));
  }
  ~ShortLockWait() {
    if (store_) store_->set_lock_wait(kLockWait);
  }
  ShortLockWait(const ShortLockWait&) = delete;
  ShortLockWait& operator=(const ShortLockWait&) = delete;

 private:
  Store* store_;
};

}  // namespace

bool ResultsPatience::attempt(const std::function<void()>& record) {
  const ShortLockWait short_wait(store_);
  try {
    record();
  } catch (const std::exception& error) {
    if (!may_pass(error)) throw;
    const Clock::time_point now = Clock::now();
    if (cause_.empty()) reminds_at_ = now + kNotTold;
    cause_ = error.what();
    if (now < reminds_at_) return false;
    reminds_at_ = now + kBetweenReminders;
    has_reminded_ = true;
    progress_.warn("waits to record results: " + cause_ +
                   "; running runs go on, and their reports stay in their files");
    return false;
  }
  if (std::exchange(has_reminded_, false)) progress_.say("results are recorded again");
  cause_.clear();
  gives_up_at_.reset();
  return true;
}

void ResultsPatience::wait_without_runs(bool user_waits) {
  const Clock::time_point now = Clock::now();
  if (!gives_up_at_) gives_up_at_ = now + kLongestWithoutRuns;
  if (user_waits && now < *gives_up_at_) return;
  throw std::runtime_error(
      cause_ +
      "; nothing is lost: what runs reported is in their files, and the next call with "
      "this experiment records it");
}

namespace {

constexpr std::chrono::milliseconds kReadInterval{250};
constexpr std::chrono::seconds kIndexInterval{1};
constexpr int kUpdatesUntilTold = 3;
constexpr std::chrono::seconds kTimeToWriteCheckpoint{60};
// The part of a job's time limit kept free to record its runs' ends and to queue it again.
constexpr std::chrono::seconds kTimeToEndJob{20};

// The time from asking a run to stop until it is killed.
std::chrono::seconds time_to_stop(const RunSpec& spec, bool in_job) {
  const std::chrono::seconds until_job_ends(spec.slurm.signal_before_end_s);
  return in_job ? std::max(kTimeToWriteCheckpoint, until_job_ends - kTimeToEndJob)
                : kTimeToWriteCheckpoint;
}

constexpr const char* kSincePlanned =
    " since the run was planned; run the experiment again, which plans it with the files as they "
    "are";

// A run that begins from another run's checkpoint goes on from its own.
RunSpec spec_of_attempt(RunSpec spec, const RunPaths& paths) {
  const bool is_from_elsewhere = !spec.resume.path.empty();
  if (is_from_elsewhere && newest_saved_step(paths)) spec.resume = {.is_auto = true, .path = {}};
  return spec;
}

// Creates the folder before launch.json, so all files in an attempt's folder belong to that
// attempt. If launch.json cannot be written, the next try takes the folder again.
int claim_and_start(const RunPaths& paths, int first, const AttemptStart& start) {
  const int attempt = claim_attempt(paths, first);
  try {
    write_start(paths, attempt, start);
  } catch (const std::exception&) {
    std::error_code not_empty;
    std::filesystem::remove(paths.attempt(attempt), not_empty);
    throw;
  }
  return attempt;
}

}  // namespace

RunLoop::RunLoop(Launcher& launcher, Progress& progress, FileDigests& digests, Store* index,
                 LoopSettings settings)
    : launcher_(launcher),
      progress_(progress),
      digests_(digests),
      index_(index),
      settings_(std::move(settings)),
      patience_(index, progress) {}

ExitCode RunLoop::run(std::vector<RunRecord> runs) {
  for (const RunRecord& run : runs) expect(progress_, run);
  waiting_.assign(std::make_move_iterator(runs.begin()), std::make_move_iterator(runs.end()));
  for (;;) {
    stop_when_asked();
    const bool is_recorded = patience_.attempt([&] { pass(); });
    if (is_recorded && running_.empty()) break;
    update_index();
    progress_.refresh();
    if (runs_are_under_way()) {
      patience_.runs_are_under_way();
      note_ended(launcher_.wait(kReadInterval));
    } else if (!is_recorded) {
      wait_without_runs();
    }
  }
  progress_.refresh();
  if (stopping_) return ExitCode::kInterrupted;
  return some_failed_ ? ExitCode::kRunFailed : ExitCode::kOk;
}

void RunLoop::wait_without_runs() {
  stop_when_asked(kReadInterval);
  patience_.wait_without_runs(user_waits_);
}

void RunLoop::pass() {
  for (auto& [id, open] : running_) open.read();
  end_attempts();
  add_followers();
  while (!stopping_ && begin_next()) {
  }
}

// The loop goes on if the index cannot be written. The files tell a later call the same.
void RunLoop::update_index() {
  const auto now = std::chrono::steady_clock::now();
  if (!index_ || now < next_update_) return;
  next_update_ = now + kIndexInterval;
  for (const auto& [id, open] : running_) changed_.insert(open.run().folder);
  const ShortLockWait short_wait(index_);
  try {
    index_->sync(changed_);
    changed_.clear();
    failed_updates_ = 0;
  } catch (const std::runtime_error& error) {
    if (++failed_updates_ != kUpdatesUntilTold) return;
    progress_.warn(std::string("tables lack the newest results, which are in their files: ") +
                   error.what());
  }
}

void RunLoop::end_attempts() {
  for (; !ended_.empty(); ended_.erase(ended_.begin())) {
    AttemptEnd& end = ended_.front();
    OpenAttempt& attempt = running_.at(end.run);
    read_to_end(settings_.results, [&] {
      attempt.read();
      return attempt.at_end();
    });
    const RunRecord& run = attempt.run();
    const RunPaths paths(settings_.results / run.folder);
    end.in_job = !settings_.owner.empty();
    const Verdict verdict = judge_and_check_inputs(settings_.results, run, attempt.attempt(),
                                                   attempt.reports().ranks(), digests_, end);
    write_end(paths, attempt.attempt(), end);
    const bool is_by_job = end.in_job && end.outcome == LaunchOutcome::kInterrupted;
    if (verdict.is_result() || !is_by_job) write_verdict(paths, attempt.attempt(), verdict);
    attempt.show_end(verdict);
    some_cut_short_ |= is_cut_short(verdict.status) && may_start_again(attempt);
    some_failed_ |= !verdict.is_result();
    changed_.insert(run.folder);
    judged_.emplace_back(run).status = verdict.status;
    running_.erase(end.run);
  }
}

void RunLoop::add_followers() {
  for (; !stopping_ && !judged_.empty(); judged_.pop_front()) {
    if (!settings_.follow_up) continue;
    auto follower = settings_.follow_up(judged_.front(), judged_.front().status);
    if (!follower) continue;
    expect(progress_, *follower);
    waiting_.push_front(std::move(*follower));
  }
}

bool RunLoop::may_start_again(const OpenAttempt& attempt) const {
  if (!settings_.job) return true;
  const auto& ended = settings_.job->ended;
  const auto found = ended.find(attempt.run().id);
  const EndedAttempts before = found == ended.end() ? EndedAttempts() : found->second;
  return attempt.reports().progress().saved_step > before.checkpoint_step ||
         before.in_a_row < attempt.run().spec.slurm.max_restarts;
}

bool RunLoop::begin_next() {
  const auto next = std::ranges::find_if(waiting_, [&](const RunRecord& run) {
    return launcher_.has_room(static_cast<size_t>(run.spec.strategy.ranks),
                              run.spec.device == DeviceKind::kCuda);
  });
  if (next == waiting_.end()) return false;
  const std::string& owner = settings_.owner;
  if (!owner.empty() && !belongs_to(owner, RunPaths(settings_.results / next->folder))) {
    progress_.say(next->point + ": left alone, because a later call has taken it");
    waiting_.erase(next);
    return true;
  }
  const AttemptStart start = start_of(*next);
  std::string problem;
  const int attempt = begin(*next, start, problem);
  const RunRecord run = std::move(*next);
  waiting_.erase(next);
  if (problem.empty()) {
    try {
      launcher_.start(request(run, attempt));
    } catch (const std::runtime_error& error) {  // ConfigError and std::system_error among them
      problem = error.what();
    }
  }
  show_start(progress_, run);
  OpenAttempt& open = running_
                          .emplace(run.id, OpenAttempt(progress_, settings_.results, run, attempt,
                                                       start.started_unix_ms))
                          .first->second;
  if (problem.empty()) return true;
  ended_.push_back({.run = run.id,
                    .outcome = LaunchOutcome::kNotStarted,
                    .reason = problem,
                    .ended_unix_ms = open.now_unix_ms(),
                    .inputs_compared = true});  // the run has read no input
  return true;
}

int RunLoop::begin(const RunRecord& run, const AttemptStart& start, std::string& problem) {
  const auto changed = changed_input(digests_, run);
  check_are_there(settings_.results);  // inputs may be in the folder
  const RunPaths paths(settings_.results / run.folder);
  int attempt = std::max(run.attempt + 1, first_free_attempt(paths));
  try {
    if (begins_anew(run)) set_checkpoints_aside(paths, std::max(run.attempt, 1));
    write_spec(paths, spec_of_attempt(run.spec, paths));
    if (settings_.owner.empty()) take_run(paths, "");
    attempt = claim_and_start(paths, attempt, start);
    if (changed) problem = *changed + kSincePlanned;
  } catch (const std::runtime_error& error) {
    if (may_pass(error)) throw;
    problem = error.what();
  }
  return attempt;
}

void RunLoop::stop_when_asked(std::chrono::milliseconds patience) {
  const int signal_number = stop_signals_.take(patience);
  if (signal_number == 0) return;
  if (stopping_ && settings_.job) return;  // Slurm kills what takes too long
  at_time_limit_ = settings_.job && signal_number == SIGUSR1;
  if (at_time_limit_) {
    progress_.say("the job's time limit is near: stopping the runs");
  } else if (runs_are_under_way()) {
    progress_.say(stopping_ ? "killing the runs" : "stopping the runs; a second signal kills them");
  } else if (stopping_) {
    user_waits_ = false;
  } else {
    progress_.say("stopping when the ends of the runs are recorded; a second signal stops at once");
  }
  stopping_ = true;
  launcher_.stop_all();
}

LaunchRequest RunLoop::request(const RunRecord& run, int attempt) const {
  const RunPaths paths(settings_.results / run.folder);
  LaunchRequest request{
      .id = run.id,
      .trainer = settings_.trainer,
      .arguments = {"--spec", paths.spec().string(), "--attempt", std::to_string(attempt)},
      .environment = run.spec.environment,
      .uses_gpus = run.spec.device == DeviceKind::kCuda,
      .time_limit = settings_.time_limit};
  if (wants_checkpoints(run.spec)) {
    request.time_to_stop = time_to_stop(run.spec, settings_.job.has_value());
  }
  if (settings_.log_level != LogLevel::kInfo) {
    request.arguments.insert(request.arguments.end(),
                             {"--log-level", std::string(name_of(settings_.log_level))});
  }
  for (int rank = 0; rank < run.spec.strategy.ranks; ++rank) {
    request.rank_logs.push_back(paths.log(attempt, rank));
  }
  return request;
}

AttemptStart RunLoop::start_of(const RunRecord& run) const {
  AttemptStart start;
  start.runner_process_id = settings_.job ? 0 : getpid();
  start.started_unix_ms = now_unix_ms();
  start.host = settings_.host;
  start.provenance = settings_.provenance;
  start.device_kind = settings_.device_kind(run.spec);
  if (settings_.job) {
    start.slurm_job = settings_.job->id;
    start.node_list = settings_.job->node_list;
    start.gpus_held = settings_.job->gpus_held;
    start.nodes_held = settings_.job->nodes_held;
  }
  if (const auto plan = settings_.predict ? settings_.predict(run.spec) : std::nullopt) {
    start.prediction = prediction_of(*plan);
  }
  return start;
}

void RunLoop::note_ended(std::vector<AttemptEnd> ends) {
  for (AttemptEnd& end : ends) {
    if (at_time_limit_ && end.outcome == LaunchOutcome::kInterrupted) {
      end.outcome = LaunchOutcome::kTimeLimit;
      end.reason = "the job's time limit was near";
    }
    if (settings_.job && !stopping_) stop_with_job(end.outcome);
    end.ended_unix_ms = running_.at(end.run).now_unix_ms();
    ended_.push_back(std::move(end));
  }
}

// A run may notice first that Slurm is about to end the job.
void RunLoop::stop_with_job(LaunchOutcome outcome) {
  if (outcome != LaunchOutcome::kNodeFailed && outcome != LaunchOutcome::kInterrupted) return;
  ranks_were_asked_alone_ = outcome == LaunchOutcome::kInterrupted;
  progress_.say(ranks_were_asked_alone_ ? "ranks were asked to stop: stopping the runs"
                                        : "a node of the job failed: stopping the runs");
  stopping_ = true;
  launcher_.stop_all();
}

}  // namespace fsdp
