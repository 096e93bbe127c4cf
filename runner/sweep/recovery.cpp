#include "runner/sweep/recovery.h"

#include "contract/record/run_paths.h"
#include "runner/store/event_files.h"
#include "runner/sweep/attempt_outcome.h"
#include "runner/sweep/input_changes.h"
#include "runner/sweep/job_attempt_files.h"

namespace fsdp {
namespace {

// As its runner saw it end, where that was left in a file; else as follows from its events.
AttemptOutcome outcome_of(const std::optional<JobAttemptEnd>& seen, const AttemptEnd& said,
                          std::span<const RankEnd> ranks) {
  if (seen) {
    return attempt_outcome(
        {.outcome = seen->outcome, .reason = seen->reason, .first_rank = seen->first_rank}, ranks);
  }
  return {said.status, (said.cause_known ? "" : "the runner was killed; ") + said.reason,
          said.reason_rank};
}

}  // namespace

void recover_attempts(Store& store, const std::filesystem::path& results,
                      std::string_view experiment,
                      const std::function<void(const std::string&)>& say) {
  for (const RunningAttempt& found : store.running_attempts(experiment)) {
    const RunPaths paths(results / found.run.folder);
    EventTail tail(paths, found.attempt, found.ranks, say);
    do {
      const std::vector<std::vector<Event>> events = tail.poll();
      store.ingest(found.run.id, found.attempt, events, tail.skipped_lines());
    } while (!tail.at_end());
    const std::vector<RankEnd> ranks = store.rank_ends(found.run.id, found.attempt);
    const std::optional<JobAttemptEnd> seen = read_attempt_end(paths, found.attempt, say);
    const AttemptEnd said = status_from_events(ranks);
    const int64_t ended_unix_ms =
        seen ? seen->ended_unix_ms : said.ended_unix_ms.value_or(found.start.started_unix_ms);
    const RunSpec spec = store.spec(found.run.id);
    const AttemptOutcome outcome =
        outcome_with_inputs(store, results, {found.run, spec, found.attempt, seen, ended_unix_ms},
                            outcome_of(seen, said, ranks));
    store.end_attempt(found.run.id, found.attempt, outcome.status, outcome.reason, ended_unix_ms,
                      outcome.reason_rank);
    say(found.run.point + ": the runner of attempt " + std::to_string(found.attempt) +
        (seen ? " could not record its end" : " was killed") + "; recorded as " +
        std::string(name_of(outcome.status)));
  }
}

}  // namespace fsdp
