#include "runner/sweep/open_attempt.h"

#include <algorithm>

#include "trainer/contract/run_paths.h"

namespace fsdp {

int64_t known_steps(const TrainSpec& train) {
  const int64_t steps = train.steps.value_or(0);
  return std::min(steps, train.max_steps.value_or(steps));
}

void expect(Progress& progress, const RunToLaunch& run) {
  progress.expect(run.record.id, run.record.point, run.spec.strategy.ranks,
                  known_steps(run.spec.train));
}

void show_start(Progress& progress, const RunToLaunch& run) {
  progress.started(run.record.id, run.record.point, run.spec.strategy.ranks,
                   known_steps(run.spec.train));
}

OpenAttempt::OpenAttempt(const RunListeners& listeners, RunToLaunch run, int attempt)
    : listeners_(listeners),
      run_(std::move(run)),
      attempt_(attempt),
      tail_(RunPaths(listeners.results / run_.record.folder), attempt,
            static_cast<int>(run_.spec.strategy.ranks),
            [&progress = listeners.progress](const std::string& line) { progress.warn(line); }) {}

void OpenAttempt::read() {
  if (!std::ranges::all_of(given_, &std::vector<Event>::empty)) return;
  given_ = tail_.poll();
  listeners_.progress.add(run_.record.id, given_);
}

void OpenAttempt::give() {
  read();
  listeners_.store.ingest(run_.record.id, attempt_, given_);
}

void OpenAttempt::ingest() {
  give();
  keep();
}

void OpenAttempt::ingest_rest() {
  do {
    ingest();
  } while (!tail_.at_end());
}

void OpenAttempt::ingest_all_but_last() {
  if (!given_.empty()) ingest();  // what was read before the end of the files was known
  for (read(); !tail_.at_end(); read()) ingest();
}

void OpenAttempt::record_end(const AttemptOutcome& outcome, int64_t ended_unix_ms) {
  listeners_.store.end_attempt(run_.record.id, attempt_, outcome.status, outcome.reason,
                               ended_unix_ms, outcome.reason_rank);
}

void OpenAttempt::show_end(const AttemptOutcome& outcome) {
  std::filesystem::path log;
  if (outcome.reason_rank >= 0) {
    log = RunPaths(listeners_.results / run_.record.folder).log(attempt_, outcome.reason_rank);
  }
  listeners_.progress.ended(run_.record.id, outcome.status, outcome.reason, log);
}

}  // namespace fsdp
