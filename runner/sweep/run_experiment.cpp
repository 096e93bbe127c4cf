#include "runner/sweep/run_experiment.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "runner/sweep/job_attempt_files.h"
#include "runner/sweep/run_folder.h"
#include "trainer/contract/config_error.h"
#include "trainer/contract/run_paths.h"
#include "trainer/contract/unix_time.h"

namespace fsdp {
namespace {

constexpr std::chrono::milliseconds kIngestInterval{250};
constexpr std::chrono::seconds kTimeToWriteCheckpoint{60};
// What a job has left of its time limit, to record how its runs ended and to be queued again.
constexpr std::chrono::seconds kTimeToEndJob{20};

std::vector<int> signals_that_stop(bool in_job) {
  std::vector<int> signals = {SIGINT, SIGTERM, SIGHUP};
  if (in_job) signals.push_back(SIGUSR1);
  return signals;
}

// From when a run is asked to stop until it is killed.
std::chrono::seconds time_to_stop(const RunSpec& spec, bool in_job) {
  const std::chrono::seconds until_job_ends(spec.slurm.signal_before_end_s);
  return in_job ? std::max(kTimeToWriteCheckpoint, until_job_ends - kTimeToEndJob)
                : kTimeToWriteCheckpoint;
}

}  // namespace

std::string device_kind(const RunSpec& spec, const std::string& gpu_kinds) {
  return spec.device == DeviceKind::kCuda ? gpu_kinds : "cpu";
}

Sweep::Sweep(Store& store, Launcher& launcher, Progress& progress, SweepSettings settings)
    : store_(store),
      launcher_(launcher),
      progress_(progress),
      settings_(std::move(settings)),
      stop_signals_(signals_that_stop(settings_.job.has_value())) {}

ExitCode Sweep::run(std::vector<RunToLaunch> runs) {
  for (const RunToLaunch& run : runs) expect(progress_, run);
  waiting_.assign(std::make_move_iterator(runs.begin()), std::make_move_iterator(runs.end()));
  for (std::vector<LaunchResult> ended;;) {
    stop_when_asked();
    turn(ended);
    if (running_.empty()) break;
    progress_.refresh();
    ended = launcher_.wait(kIngestInterval);
  }
  progress_.refresh();
  if (stopping_) return ExitCode::kInterrupted;
  return some_failed_ ? ExitCode::kRunFailed : ExitCode::kOk;
}

// The end of a run and the start of the one that takes its place are one transaction: in a sweep of
// short runs, waiting for the disk is most of what a run costs.
void Sweep::turn(std::span<const LaunchResult> ended) {
  std::optional<Store::Batch> batch;
  if (!ended.empty()) batch.emplace(store_);
  for (auto& [id, attempt] : running_) attempt.ingest();
  for (const LaunchResult& result : ended) finish(result);
  std::optional<Begun> begun = begin_next();
  if (batch) batch->commit();
  batch.reset();
  for (; begun; begun = begin_next()) launch(std::move(*begun));
}

void Sweep::stop_when_asked() {
  const int signal_number = stop_signals_.take();
  if (signal_number == 0) return;
  if (stopping_ && settings_.job) return;  // Slurm kills what takes too long
  at_time_limit_ = signal_number == SIGUSR1;
  if (at_time_limit_) {
    progress_.say("the job's time limit is near: stopping the runs");
  } else if (!running_.empty()) {
    progress_.say(stopping_ ? "killing the runs" : "stopping the runs; once more kills them");
  }
  stopping_ = true;
  launcher_.stop_all();
}

LaunchRequest Sweep::request(const RunToLaunch& run, int attempt) const {
  const RunPaths paths(settings_.results / run.record.folder);
  LaunchRequest request{
      .id = run.record.id,
      .trainer = settings_.trainer,
      .arguments = {"--spec", paths.spec().string(), "--attempt", std::to_string(attempt)},
      .uses_gpus = run.spec.device == DeviceKind::kCuda,
      .time_limit = settings_.time_limit};
  if (wants_checkpoints(run.spec)) {
    request.time_to_stop = time_to_stop(run.spec, settings_.job.has_value());
  }
  for (int rank = 0; rank < run.spec.strategy.ranks; ++rank) {
    request.rank_logs.push_back(paths.log(attempt, rank));
  }
  return request;
}

std::optional<Sweep::Begun> Sweep::begin_next() {
  if (stopping_) return std::nullopt;
  const auto next = std::ranges::find_if(waiting_, [&](const RunToLaunch& run) {
    return launcher_.has_room(static_cast<size_t>(run.spec.strategy.ranks),
                              run.spec.device == DeviceKind::kCuda);
  });
  if (next == waiting_.end()) return std::nullopt;
  RunToLaunch run = std::move(*next);
  waiting_.erase(next);
  // Recorded before it is started: a runner that is killed from here on leaves an attempt that the
  // next one closes.
  AttemptStart start;
  start.runner_process_id = getpid();
  start.started_unix_ms = now_unix_ms();
  start.host = settings_.host;
  start.provenance = settings_.provenance;
  start.device_kind = settings_.device_kind(run.spec);
  const int attempt = store_.begin_attempt(run.record.id, start, first_attempt(run.record));
  return Begun{std::move(run), attempt};
}

// In a job, where others may begin attempts at the run as well, its folder is there.
int Sweep::first_attempt(const RunRecord& run) const {
  const RunPaths paths(settings_.results / run.folder);
  return settings_.job ? claim_attempt(paths, run.attempt + 1) : first_free_attempt(paths);
}

void Sweep::launch(Begun begun) {
  const RunToLaunch& run = begun.run;
  const RunPaths paths(settings_.results / run.record.folder);
  show_start(progress_, run);
  const int64_t id = run.record.id;
  OpenAttempt attempt({store_, progress_, settings_.results}, run, begun.attempt);
  try {
    set_checkpoints_aside(paths, run.record);
    write_spec(paths, run.spec);
    std::filesystem::create_directory(paths.attempt(begun.attempt));
    if (const auto& job = settings_.job) {
      write_attempt_start(paths, begun.attempt,
                          {.job = job->id,
                           .node_list = job->node_list,
                           .host = settings_.host,
                           .started_unix_ms = now_unix_ms()});
    }
    launcher_.start(request(run, begun.attempt));
  } catch (const std::runtime_error& error) {  // ConfigError and std::system_error among them
    record_end(attempt, {.outcome = LaunchOutcome::kFailed, .reason = error.what()});
    return end(attempt, {RunStatus::kFailed, error.what(), -1});
  }
  running_.emplace(id, std::move(attempt));
}

void Sweep::finish(LaunchResult result) {
  const auto ended = running_.extract(result.id);
  OpenAttempt& attempt = ended.mapped();
  attempt.ingest_rest();
  if (at_time_limit_ && result.outcome == LaunchOutcome::kInterrupted) {
    result.outcome = LaunchOutcome::kTimeLimit;
    result.reason = "the job's time limit was near";
  }
  if (settings_.job && !stopping_) stop_with_job(result.outcome);
  record_end(attempt, result);
  const AttemptOutcome outcome =
      attempt_outcome(result, store_.rank_ends(result.id, attempt.attempt()));
  end(attempt, outcome);
  if (settings_.follow_up && !stopping_) follow_up(attempt.run(), outcome.status);
}

// A run may be the first to know that Slurm is about to end the job.
void Sweep::stop_with_job(LaunchOutcome outcome) {
  if (outcome != LaunchOutcome::kNodeFailed && outcome != LaunchOutcome::kInterrupted) return;
  ranks_were_asked_alone_ = outcome == LaunchOutcome::kInterrupted;
  progress_.say(ranks_were_asked_alone_ ? "ranks were asked to stop: stopping the runs"
                                        : "a node of the job failed: stopping the runs");
  stopping_ = true;
  launcher_.stop_all();
}

void Sweep::record_end(const OpenAttempt& attempt, const LaunchResult& result) const {
  if (!settings_.job) return;
  write_attempt_end(RunPaths(settings_.results / attempt.run().record.folder), attempt.attempt(),
                    {.ended_unix_ms = now_unix_ms(),
                     .outcome = result.outcome,
                     .reason = result.reason,
                     .first_rank = result.first_rank});
}

void Sweep::follow_up(const RunToLaunch& ended, RunStatus status) {
  std::optional<RunToLaunch> next = settings_.follow_up(ended, status);
  if (!next) return;
  expect(progress_, *next);
  waiting_.push_front(std::move(*next));
}

void Sweep::end(OpenAttempt& attempt, const AttemptOutcome& outcome) {
  attempt.end(outcome, now_unix_ms());
  some_failed_ |=
      outcome.status != RunStatus::kFinished && outcome.status != RunStatus::kOutOfMemory;
}

}  // namespace fsdp
