#include "runner/attempt/recovery.h"

#include <fmt/format.h>

#include "contract/record/run_paths.h"
#include "runner/attempt/closing.h"

namespace fsdp {

void recover_attempts(Store& store, const std::filesystem::path& results,
                      std::string_view experiment,
                      const std::function<void(const std::string&)>& say) {
  for (const RunningAttempt& found : store.running_attempts(experiment)) {
    const RunSpec spec = store.spec(found.run.id);
    const OverAttempt attempt{
        .run = found.run,
        .spec = spec,
        .attempt = found.attempt,
        .end = read_end_record(RunPaths(results / found.run.folder), found.attempt, say),
        .ended_at_most_unix_ms = found.start.started_unix_ms};
    ingest_rest(store, results, attempt, say);
    const Ending ending = close_attempt(store, results, attempt);
    say(fmt::format("{}: the runner of attempt {} {}; recorded as {}", found.run.point,
                    found.attempt, attempt.end ? "could not record its end" : "was killed",
                    name_of(ending.status)));
  }
}

}  // namespace fsdp
