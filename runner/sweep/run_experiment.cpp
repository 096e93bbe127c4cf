#include "runner/sweep/run_experiment.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

#include "runner/sweep/attempt_outcome.h"
#include "trainer/contract/config_error.h"
#include "trainer/contract/run_paths.h"
#include "trainer/contract/run_spec_yaml.h"
#include "trainer/contract/unix_time.h"

namespace fsdp {
namespace {

constexpr std::chrono::milliseconds kIngestInterval{250};
constexpr std::chrono::seconds kTimeToWriteCheckpoint{60};

// Whoever reads `path` sees the old or the new text, never a part.
void replace_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::path temporary = path;
  temporary += ".new";
  std::ofstream file(temporary);
  file << text;
  file.close();
  if (!file) {
    throw std::system_error(errno, std::generic_category(), "cannot write " + temporary.string());
  }
  std::filesystem::rename(temporary, path);
}

// run.yaml and an empty attempt folder.
void lay_out(const RunPaths& paths, const RunSpec& spec, int attempt) {
  std::filesystem::create_directories(paths.folder());
  replace_file(paths.spec(), to_yaml(spec));
  std::filesystem::create_directory(paths.attempt(attempt));
}

// A run that has finished and is run again begins anew: the checkpoints go to the attempt that
// wrote them.
void set_checkpoints_aside(const RunPaths& paths, const RunRecord& record) {
  if (record.status != RunStatus::kFinished || !std::filesystem::exists(paths.checkpoints()))
    return;
  std::filesystem::rename(paths.checkpoints(), paths.attempt(record.attempt) / "checkpoints");
}

// 0 when only the trainer knows, from the training set.
int64_t known_steps(const TrainSpec& train) {
  const int64_t steps = train.steps.value_or(0);
  return std::min(steps, train.max_steps.value_or(steps));
}

}  // namespace

std::string device_kind(const RunSpec& spec, const std::string& gpu_kinds) {
  return spec.device == DeviceKind::kCuda ? gpu_kinds : "cpu";
}

Sweep::Sweep(Store& store, Launcher& launcher, Progress& progress, SweepSettings settings)
    : store_(store), launcher_(launcher), progress_(progress), settings_(std::move(settings)) {}

ExitCode Sweep::run(std::vector<RunToLaunch> runs) {
  for (const RunToLaunch& run : runs) {
    progress_.expect(run.record.id, run.record.point, run.spec.strategy.ranks,
                     known_steps(run.spec.train));
  }
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
  for (auto& [id, running] : running_) ingest(id, running);
  for (const LaunchResult& result : ended) finish(result);
  std::optional<Begun> begun = begin_next();
  if (batch) batch->commit();
  batch.reset();
  for (; begun; begun = begin_next()) launch(std::move(*begun));
}

void Sweep::stop_when_asked() {
  if (!stop_signals_.take()) return;
  if (!running_.empty()) {
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
  if (wants_checkpoints(run.spec)) request.time_to_stop = kTimeToWriteCheckpoint;
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
  start.device_kind = device_kind(run.spec, settings_.gpu_kinds);
  const int attempt = store_.begin_attempt(
      run.record.id, start, first_free_attempt(RunPaths(settings_.results / run.record.folder)));
  return Begun{std::move(run), attempt};
}

void Sweep::launch(Begun begun) {
  auto& [run, attempt] = begun;
  const RunPaths paths(settings_.results / run.record.folder);
  const auto ranks = static_cast<int>(run.spec.strategy.ranks);
  progress_.started(run.record.id, run.record.point, ranks, known_steps(run.spec.train));
  try {
    set_checkpoints_aside(paths, run.record);
    lay_out(paths, run.spec, attempt);
    launcher_.start(request(run, attempt));
  } catch (const std::runtime_error& error) {  // ConfigError and std::system_error among them
    return end_attempt(run, attempt, RunStatus::kFailed, error.what(), -1);
  }
  EventTail tail(paths, attempt, ranks, [this](const std::string& line) { progress_.warn(line); });
  const int64_t id = run.record.id;
  running_.emplace(id, Running{std::move(run), attempt, std::move(tail)});
}

void Sweep::ingest(int64_t id, Running& running) {
  const std::vector<std::vector<Event>> events = running.tail.poll();
  store_.ingest(id, running.attempt, events);
  progress_.add(id, events);
}

void Sweep::finish(const LaunchResult& result) {
  const auto ended = running_.extract(result.id);
  Running& running = ended.mapped();
  do {  // what was written since
    ingest(result.id, running);
  } while (!running.tail.at_end());
  const AttemptOutcome outcome =
      attempt_outcome(result, store_.rank_ends(result.id, running.attempt));
  end_attempt(running.run, running.attempt, outcome.status, outcome.reason, outcome.reason_rank);
  if (settings_.follow_up && !stopping_) follow_up(running.run, outcome.status);
}

void Sweep::follow_up(const RunToLaunch& ended, RunStatus status) {
  std::optional<RunToLaunch> next = settings_.follow_up(ended, status);
  if (!next) return;
  progress_.expect(next->record.id, next->record.point, next->spec.strategy.ranks,
                   known_steps(next->spec.train));
  waiting_.push_front(std::move(*next));
}

void Sweep::end_attempt(const RunToLaunch& run, int attempt, RunStatus status,
                        const std::string& reason, int reason_rank) {
  store_.end_attempt(run.record.id, attempt, status, reason, now_unix_ms(), reason_rank);
  some_failed_ |= status != RunStatus::kFinished && status != RunStatus::kOutOfMemory;
  const RunPaths paths(settings_.results / run.record.folder);
  progress_.ended(run.record.id, status, reason,
                  reason_rank >= 0 ? paths.log(attempt, reason_rank) : std::filesystem::path());
}

}  // namespace fsdp
