#include "runner/attempt/attempt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "contract/record/run_paths.h"
#include "runner/attempt/input_changes.h"

namespace fsdp {
namespace {

// Synchronized clocks differ by less than this.
constexpr int64_t kClockDifferenceMs = 5'000;

// Returns how far, at least, a starting rank's clock is ahead of its runner's; negative: behind.
// The rank cannot have started before its attempt, nor written its event later than now.
int64_t ahead_ms(const Event& start, int64_t attempt_started_unix_ms, int64_t now_unix_ms) {
  const int64_t process_started = start.time_unix_ms - start.elapsed_ms.value_or(0);
  if (start.time_unix_ms > now_unix_ms) return start.time_unix_ms - now_unix_ms;
  return std::min<int64_t>(0, process_started - attempt_started_unix_ms);
}

double tokens_of_step(const RunSpec& spec) {
  const int64_t at_once = spec.device == DeviceKind::kCuda ? spec.strategy.ranks : 1;
  return static_cast<double>(total_batch(spec)) / static_cast<double>(at_once) *
         static_cast<double>(spec.data.sequence_length);
}

RunOutline outline_of(const RunRecord& run) {
  return {.point = run.point,
          .ranks = run.spec.strategy.ranks,
          .steps = known_steps(run.spec.train),
          .tokens_of_step = tokens_of_step(run.spec),
          .evaluates_every = run.spec.evaluation.every_steps.value_or(0),
          .checkpoints_every = run.spec.checkpoint.every_steps.value_or(0)};
}

}  // namespace

int64_t known_steps(const TrainSpec& train) {
  const int64_t steps = train.steps.value_or(0);
  return std::min(steps, train.max_steps.value_or(steps));
}

void expect(Progress& progress, const RunRecord& run) {
  progress.expect(run.id, outline_of(run));
}

void show_start(Progress& progress, const RunRecord& run) {
  progress.started(run.id, outline_of(run));
}

OpenAttempt::OpenAttempt(const RunListeners& listeners, RunRecord run, int attempt)
    : listeners_(listeners),
      run_(std::move(run)),
      attempt_(attempt),
      tail_(RunPaths(listeners.results / run_.folder), attempt,
            static_cast<int>(run_.spec.strategy.ranks), listeners.warn()) {}

void OpenAttempt::read() {
  if (!std::ranges::all_of(given_, &std::vector<Event>::empty)) return;
  given_ = tail_.poll();
  listeners_.progress.add(run_.id, given_, tail_.begun());
}

void OpenAttempt::give() {
  read();
  listeners_.store.ingest(run_.id, attempt_, given_, tail_.skipped_lines());
  tell_of_clocks();
}

void OpenAttempt::ingest() {
  give();
  keep();
}

void OpenAttempt::tell_of_clocks() {
  for (const std::vector<Event>& of_rank : given_) {
    if (told_of_clocks_ || of_rank.empty()) continue;
    const auto* started = std::get_if<RunStarted>(&of_rank.front().body);
    if (started == nullptr) continue;
    const std::vector<AttemptRecord> attempts = listeners_.store.attempts(run_.id);
    const auto own = std::ranges::find(attempts, attempt_, &AttemptRecord::attempt);
    if (own == attempts.end()) continue;
    const int64_t ahead = ahead_ms(of_rank.front(), own->started_unix_ms, now_unix_ms());
    if (std::abs(ahead) < kClockDifferenceMs) continue;
    told_of_clocks_ = true;
    listeners_.progress.warn(
        fmt::format("{}: the clock of {} is {} s {} its runner's: times of day are off, durations "
                    "are not; set it",
                    run_.point, started->host, std::abs(ahead) / 1000,
                    ahead > 0 ? "ahead of" : "behind"));
  }
}

void OpenAttempt::ingest_rest() {
  do {
    ingest();
  } while (!tail_.at_end());
}

void OpenAttempt::ingest_all_but_last() {
  if (!given_.empty()) ingest();  // events read before the end of the files was known
  for (read(); !tail_.at_end(); read()) ingest();
}

void OpenAttempt::show_end(const Ending& ending) {
  std::filesystem::path log;
  if (ending.reason_rank >= 0) {
    log = RunPaths(listeners_.results / run_.folder).log(attempt_, ending.reason_rank);
  }
  listeners_.progress.ended(run_.id, ending.status, ending.reason, log);
}

void ingest_rest(Store& store, const std::filesystem::path& results, const RunRecord& run,
                 int attempt, const WarnOfFile& warn) {
  EventTail tail(RunPaths(results / run.folder), attempt,
                 static_cast<int>(run.spec.strategy.ranks), warn);
  do {
    const std::vector<std::vector<Event>> events = tail.poll();
    store.ingest(run.id, attempt, events, tail.skipped_lines());
  } while (!tail.at_end());
}

Ending close_attempt(Store& store, const std::filesystem::path& results, const RunRecord& run,
                     int attempt, const AttemptEnd& end) {
  check_are_there(results);  // inputs may be in it
  const std::vector<RankEnd> ranks = store.rank_ends(run.id, attempt);
  Ending ending = judge(ranks, end);
  const int64_t ended_unix_ms = end.outcome == LaunchOutcome::kUnseen
                                    ? last_event_unix_ms(ranks).value_or(end.ended_unix_ms)
                                    : end.ended_unix_ms;
  const std::optional<std::string> changed =
      end.inputs_compared ? end.changed_input : changed_input(store, run, ended_unix_ms);
  if (changed) {
    set_checkpoints_aside(RunPaths(results / run.folder), attempt);
    ending.status = RunStatus::kFailed;
    ending.reason = *changed + " while the run went on; run it again, with files that stay as they are" +
                    (ending.reason.empty() ? "" : " (" + ending.reason + ")");
  }
  store.end_attempt(run.id, attempt, ending.status, ending.reason, ended_unix_ms,
                    ending.reason_rank);
  return ending;
}

}  // namespace fsdp
