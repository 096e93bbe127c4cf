#include "runner/attempt/earlier_attempts.h"

#include <fmt/format.h>

#include "contract/record/unix_time.h"
#include "runner/attempt/attempt_import.h"
#include "runner/attempt/closing.h"

namespace fsdp {
namespace {

// True if the job ended, rather than the run by itself.
bool ended_with_job(const std::optional<EndRecord>& end) {
  if (!end) return true;
  const LaunchOutcome outcome = end->launch.outcome;
  return outcome == LaunchOutcome::kTimeLimit || outcome == LaunchOutcome::kInterrupted ||
         outcome == LaunchOutcome::kNodeFailed;
}

// Returns the attempt's status at the end of the job's earlier start.
RunStatus end_earlier_attempt(const RunListeners& listeners, const RunToLaunch& run, int number) {
  const WarnOfFile warn = listeners.warn();
  OverAttempt attempt{
      .run = run.record,
      .spec = run.spec,
      .attempt = number,
      .end = read_end_record(RunPaths(listeners.results / run.record.folder), number, warn),
      .of_job = true,
      .ended_at_most_unix_ms = now_unix_ms()};
  attempt.was_requeued = ended_with_job(attempt.end);
  ingest_rest(listeners.store, listeners.results, attempt, warn);
  const Ending ending = close_attempt(listeners.store, listeners.results, attempt);
  listeners.progress.say(fmt::format("{}: attempt {} when the job ran before: {}{}{}",
                                     run.record.point, number, name_of(ending.status),
                                     ending.reason.empty() ? "" : ", ", ending.reason));
  return ending.status;
}

}  // namespace

std::vector<RunToLaunch> left_to_launch(
    std::vector<RunToLaunch> runs, const RunListeners& listeners, int64_t job,
    const std::function<std::optional<RunToLaunch>(const RunToLaunch&, RunStatus)>& follow_up) {
  std::vector<RunToLaunch> left;
  int64_t tasks = 0;
  for (RunToLaunch& first : runs) {
    std::optional<RunToLaunch> run = std::move(first);
    while (run) {
      listeners.store.update_task(job, {.task = tasks++, .run = run->record.id});
      const std::vector<int> attempts =
          import_attempts(listeners.store, listeners.results, run->record);
      for (const int attempt : attempts) {
        run->record.status = end_earlier_attempt(listeners, *run, attempt);
        run->record.attempt = attempt;
      }
      if (attempts.empty() || is_cut_short(run->record.status)) {
        left.push_back(std::move(*run));
        break;
      }
      run = follow_up(*run, run->record.status);
    }
  }
  return left;
}

}  // namespace fsdp
