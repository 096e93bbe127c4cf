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
  while (take() != 0) {  // one that came too late must not end the program now
  }
  const bool is_told_next = std::uncaught_exceptions() > 0;  // why the sweep ended
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
  explicit ShortLockWait(Store& store) : store_(store) {
    store_.set_lock_wait(std::chrono::milliseconds(250));
  }
  ~ShortLockWait() { store_.set_lock_wait(kLockWait); }
  ShortLockWait(const ShortLockWait&) = delete;
  ShortLockWait& operator=(const ShortLockWait&) = delete;

 private:
  Store& store_;
};

}  // namespace

bool ResultsPatience::attempt(const std::function<void()>& record) {
  const ShortLockWait short_wait(store_);
  try {
    record();
  } catch (const std::exception& error) {
    if (!may_pass(error)) throw;
    remind(error.what());
    return false;
  }
  if (!reminded_of_.empty()) progress_.say("results are recorded again");
  failing_since_.reset();
  without_runs_since_.reset();
  reminded_of_.clear();
  return true;
}

void ResultsPatience::remind(const std::string& cause) {
  const Clock::time_point now = Clock::now();
  cause_ = cause;
  if (!failing_since_) failing_since_ = now;
  if (now - *failing_since_ < kNotTold) return;
  if (cause == reminded_of_ && now - reminded_at_ < kBetweenReminders) return;
  reminded_of_ = cause;
  reminded_at_ = now;
  progress_.warn("waits: " + cause +
                 "; runs under way go on, and what they report is kept in their files");
}

void ResultsPatience::wait_without_runs(bool user_waits) {
  const Clock::time_point now = Clock::now();
  if (!without_runs_since_) without_runs_since_ = now;
  if (user_waits && now - *without_runs_since_ < kLongestWithoutRuns) return;
  throw GaveUp(cause_ +
               "; nothing is lost: what runs reported is in their files, and the next call "
               "records it");
}

namespace {

constexpr std::chrono::milliseconds kIngestInterval{250};
constexpr std::chrono::seconds kTimeToWriteCheckpoint{60};
// The part of a job's time limit kept free to record its runs' ends and to queue it again.
constexpr std::chrono::seconds kTimeToEndJob{20};

constexpr const char* kSincePlanned =
    " since the run was planned; run the experiment again, which plans it with the files as they "
    "are";

// The time from asking a run to stop until it is killed.
std::chrono::seconds time_to_stop(const RunSpec& spec, bool in_job) {
  const std::chrono::seconds until_job_ends(spec.slurm.signal_before_end_s);
  return in_job ? std::max(kTimeToWriteCheckpoint, until_job_ends - kTimeToEndJob)
                : kTimeToWriteCheckpoint;
}

}  // namespace

RunLoop::RunLoop(Store& store, Launcher& launcher, Progress& progress, LoopSettings settings)
    : store_(store),
      launcher_(launcher),
      progress_(progress),
      settings_(std::move(settings)),
      patience_(store, progress) {}

ExitCode RunLoop::run(std::vector<RunRecord> runs) {
  for (const RunRecord& run : runs) expect(progress_, run);
  waiting_.assign(std::make_move_iterator(runs.begin()), std::make_move_iterator(runs.end()));
  for (;;) {
    stop_when_asked();
    const bool is_recorded = patience_.attempt([&] { record_and_launch(); });
    if (is_recorded && running_.empty()) break;
    progress_.refresh();
    if (runs_are_under_way()) {
      patience_.runs_are_under_way();
      note_ended(launcher_.wait(kIngestInterval));
    } else if (!is_recorded) {
      wait_without_runs();
    }
  }
  progress_.refresh();
  if (stopping_) return ExitCode::kInterrupted;
  return some_failed_ ? ExitCode::kRunFailed : ExitCode::kOk;
}

void RunLoop::wait_without_runs() {
  stop_when_asked(kIngestInterval);
  try {
    patience_.wait_without_runs(user_waits_);
  } catch (const GaveUp&) {
    leave_ends_in_files();
    throw;
  }
}

void RunLoop::record_and_launch() {
  for (record(); begun_; record()) launch();
}

// A run's end and the start of its successor are one transaction. In a sweep of short runs, waiting
// for the disk is most of a run's cost.
void RunLoop::record() {
  for (AttemptEnd& end : ended_) {
    running_.at(end.run).ingest_all_but_last();
    look_at_inputs(end);
  }
  std::optional<Store::Batch> batch;
  if (!ended_.empty()) batch.emplace(store_);
  for (auto& [id, attempt] : running_) attempt.give();
  std::vector<Ending> endings;
  std::vector<RunRecord> followers;  // the runs that follow from ended ones
  for (const AttemptEnd& end : ended_) {
    endings.push_back(close(end));
    if (!settings_.follow_up || stopping_) continue;
    auto follower = settings_.follow_up(running_.at(end.run).run(), endings.back().status);
    if (follower) followers.push_back(std::move(*follower));
  }
  const RunRecord* next = begun_ ? nullptr : next_run(followers);
  const int64_t next_id = next ? next->id : 0;
  const int next_attempt = next ? begin(*next) : 0;
  if (batch) batch->commit();
  batch.reset();

  for (auto& [id, attempt] : running_) attempt.keep();
  for (size_t i = 0; i < ended_.size(); ++i) conclude(ended_[i].run, endings[i]);
  ended_.clear();
  for (RunRecord& follower : followers) {
    expect(progress_, follower);
    waiting_.push_front(std::move(follower));
  }
  if (next) begun_ = Begun{take_waiting(next_id), next_attempt};
}

void RunLoop::stop_when_asked(std::chrono::milliseconds patience) {
  const int signal_number = stop_signals_.take(patience);
  if (signal_number == 0) return;
  if (stopping_ && settings_.job) return;  // Slurm kills what takes too long
  at_time_limit_ = settings_.job && signal_number == SIGUSR1;
  if (at_time_limit_) {
    progress_.say("the job's time limit is near: stopping the runs");
  } else if (runs_are_under_way()) {
    progress_.say(
        stopping_ ? "killing the runs"
                  : "stopping the runs; once more kills them. The same command does what is left");
  } else if (stopping_) {
    user_waits_ = false;
  } else if (!ended_.empty()) {
    progress_.say("stopping when it is recorded how runs ended; once more stops at once");
  }
  stopping_ = true;
  launcher_.stop_all();
  if (!begun_) return;
  const int64_t id = begun_->run.id;
  open(*std::exchange(begun_, std::nullopt));
  note_ended({{.run = id, .outcome = LaunchOutcome::kInterrupted, .reason = "asked to stop"}});
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

const RunRecord* RunLoop::next_run(std::span<const RunRecord> followers) const {
  if (stopping_) return nullptr;
  const auto has_room = [&](const RunRecord& run) {
    return launcher_.has_room(static_cast<size_t>(run.spec.strategy.ranks),
                              run.spec.device == DeviceKind::kCuda);
  };
  for (const RunRecord& follower : followers | std::views::reverse) {
    if (has_room(follower)) return &follower;
  }
  const auto next = std::ranges::find_if(waiting_, has_room);
  return next == waiting_.end() ? nullptr : &*next;
}

RunRecord RunLoop::take_waiting(int64_t id) {
  const auto found = std::ranges::find(waiting_, id, &RunRecord::id);
  RunRecord run = std::move(*found);
  waiting_.erase(found);
  return run;
}

// Records the attempt before its start. If the runner is killed then, the next one closes it.
int RunLoop::begin(const RunRecord& run) {
  check_are_there(settings_.results);
  AttemptStart start;
  start.runner_process_id = getpid();
  start.started_unix_ms = now_unix_ms();
  start.host = settings_.host;
  start.provenance = settings_.provenance;
  start.device_kind = settings_.device_kind(run.spec);
  if (const auto plan = settings_.predict ? settings_.predict(run.spec) : std::nullopt) {
    start.prediction = prediction_of(*plan);
  }
  return store_.begin_attempt(run.id, start, claim(run));
}

// Makes the folder before the attempt is recorded, so all files in a recorded folder are of that
// attempt. In jobs, attempts take consecutive numbers, because import_attempts() looks for one
// after the other. Elsewhere the newest has the highest number.
int RunLoop::claim(const RunRecord& run) {
  const auto claimed = claimed_.find(run.id);
  if (claimed != claimed_.end()) return claimed->second;
  const RunPaths paths(settings_.results / run.folder);
  const int next = store_.run(run.id)->attempt + 1;
  try {
    const int first = settings_.job ? next : std::max(next, first_free_attempt(paths));
    return claimed_[run.id] = claim_attempt(paths, first);
  } catch (const std::system_error& error) {
    if (may_pass(error)) throw;
    return next;  // start() says why there is no folder
  }
}

void RunLoop::launch() {
  const std::optional<std::string> problem = start(*begun_);
  const int64_t id = begun_->run.id;
  show_start(progress_, begun_->run);
  open(*std::exchange(begun_, std::nullopt));
  if (!problem) return;
  ended_.push_back({.run = id,
                    .outcome = LaunchOutcome::kNotStarted,
                    .reason = *problem,
                    .ended_unix_ms = running_.at(id).now_unix_ms(),
                    .inputs_compared = true});  // it has read none
}

std::optional<std::string> RunLoop::start(const Begun& begun) {
  const auto changed = changed_input(store_, begun.run);
  try {
    check_are_there(settings_.results);
    prepare_folder(begun);
    if (changed) return *changed + kSincePlanned;
  } catch (const std::runtime_error& error) {
    if (may_pass(error)) throw;
    return error.what();
  }
  try {
    launcher_.start(request(begun.run, begun.attempt));
  } catch (const std::runtime_error& error) {  // ConfigError and std::system_error among them
    return error.what();
  }
  return std::nullopt;
}

void RunLoop::prepare_folder(const Begun& begun) const {
  const RunRecord& run = begun.run;
  const RunPaths paths(settings_.results / run.folder);
  if (run.status == RunStatus::kFinished) set_checkpoints_aside(paths, run.attempt);
  write_spec(paths, run.spec);
  if (!settings_.job) return;
  const AttemptRecord recorded = store_.attempts(run.id).back();
  write_launch_record(paths, begun.attempt,
                      {.job = settings_.job->id,
                       .node_list = settings_.job->node_list,
                       .host = settings_.host,
                       .started_unix_ms = now_unix_ms(),
                       .prediction = recorded.prediction});
}

void RunLoop::open(Begun begun) {
  const int64_t id = begun.run.id;
  claimed_.erase(id);
  running_.emplace(
      id, OpenAttempt({store_, progress_, settings_.results}, std::move(begun.run), begun.attempt));
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

// Runs once and outside transactions, because a changed file is read. Throws while the results are
// away, because inputs may be in them.
void RunLoop::look_at_inputs(AttemptEnd& end) {
  if (end.inputs_compared) return;
  check_are_there(settings_.results);
  const auto changed = changed_input(store_, running_.at(end.run).run());
  check_are_there(settings_.results);
  end.changed_input = changed;
  end.inputs_compared = true;
}

Ending RunLoop::close(const AttemptEnd& end) {
  if (settings_.job) write_end_of(end);
  const OpenAttempt& attempt = running_.at(end.run);
  return close_attempt(store_, settings_.results, attempt.run(), attempt.attempt(), end);
}

void RunLoop::conclude(int64_t run, const Ending& ending) {
  running_.extract(run).mapped().show_end(ending);
  some_cut_short_ |= is_cut_short(ending.status);
  some_failed_ |= !ending.is_result();
}

void RunLoop::write_end_of(const AttemptEnd& end) const {
  const OpenAttempt& attempt = running_.at(end.run);
  check_are_there(settings_.results);
  write_end(RunPaths(settings_.results / attempt.run().folder), attempt.attempt(), end);
}

// Writes the ends that only this process knows to files for the next runner, if possible.
void RunLoop::leave_ends_in_files() const {
  for (const AttemptEnd& end : ended_) {
    try {
      write_end_of(end);
    } catch (const std::system_error&) {
    }
  }
}

}  // namespace fsdp
