#include "runner/sweep/earlier_attempts.h"

#include "contract/record/unix_time.h"
#include "runner/store/event_files.h"
#include "runner/sweep/attempt_import.h"
#include "runner/sweep/input_changes.h"
#include "runner/sweep/job_outcome.h"

namespace fsdp {
namespace {

// Whether it was the job that ended, and not the run by itself.
bool ended_with_job(const std::optional<JobAttemptEnd>& end) {
  return !end || end->outcome == LaunchOutcome::kTimeLimit ||
         end->outcome == LaunchOutcome::kInterrupted || end->outcome == LaunchOutcome::kNodeFailed;
}

// How the attempt ended when the job ran before.
RunStatus end_earlier_attempt(const RunListeners& listeners, const RunToLaunch& run, int attempt) {
  const int64_t id = run.record.id;
  const RunPaths paths(listeners.results / run.record.folder);
  const auto warn = [&](const std::string& line) { listeners.progress.warn(line); };
  EventTail tail(paths, attempt, static_cast<int>(run.spec.strategy.ranks), warn);
  do {
    const std::vector<std::vector<Event>> events = tail.poll();
    listeners.store.ingest(id, attempt, events, tail.skipped_lines());
  } while (!tail.at_end());
  const std::optional<JobAttemptEnd> end = read_attempt_end(paths, attempt, warn);
  const std::vector<RankEnd> ranks = listeners.store.rank_ends(id, attempt);
  const int64_t ended_unix_ms =
      end ? end->ended_unix_ms : status_from_events(ranks).ended_unix_ms.value_or(now_unix_ms());
  const AttemptOutcome outcome = outcome_with_inputs(
      listeners.store, listeners.results, {run.record, run.spec, attempt, end, ended_unix_ms},
      job_attempt_outcome({.ranks = ranks, .end = end, .was_requeued = ended_with_job(end)}));
  listeners.store.end_attempt(id, attempt, outcome.status, outcome.reason, ended_unix_ms,
                              outcome.reason_rank);
  listeners.progress.say(run.record.point + ": attempt " + std::to_string(attempt) +
                         " when the job ran before: " + std::string(name_of(outcome.status)) +
                         (outcome.reason.empty() ? "" : ", " + outcome.reason));
  return outcome.status;
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
