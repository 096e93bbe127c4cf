#include "runner/sweep/recovery.h"

#include "runner/store/event_files.h"
#include "trainer/contract/run_paths.h"

namespace fsdp {

void recover_attempts(Store& store, const std::filesystem::path& results,
                      std::string_view experiment,
                      const std::function<void(const std::string&)>& say) {
  for (const RunningAttempt& found : store.running_attempts(experiment)) {
    EventTail tail(RunPaths(results / found.run.folder), found.attempt, found.ranks, say);
    do {
      store.ingest(found.run.id, found.attempt, tail.poll());
    } while (!tail.at_end());
    AttemptEnd end = status_from_events(store.rank_ends(found.run.id, found.attempt));
    if (!end.cause_known) end.reason = "the runner was killed; " + end.reason;
    store.end_attempt(found.run.id, found.attempt, end.status, end.reason,
                      end.ended_unix_ms.value_or(found.start.started_unix_ms), end.reason_rank);
    say(found.run.point + ": the runner of attempt " + std::to_string(found.attempt) +
        " was killed; recorded as " + std::string(name_of(end.status)));
  }
}

}  // namespace fsdp
