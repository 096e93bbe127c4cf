#include "runner/attempt/closing.h"

#include "contract/record/run_paths.h"
#include "runner/attempt/input_changes.h"
#include "runner/attempt/run_folder.h"
#include "runner/store/event_files.h"

namespace fsdp {
namespace {

std::optional<std::string> changed_input_of(Store& store, const OverAttempt& attempt,
                                            int64_t ended_unix_ms) {
  if (attempt.end && (attempt.end->inputs_compared || attempt.end->changed_input)) {
    return attempt.end->changed_input;
  }
  return changed_input(store, attempt.run, attempt.spec, ended_unix_ms);
}

}  // namespace

void ingest_rest(Store& store, const std::filesystem::path& results, const OverAttempt& attempt,
                 const WarnOfFile& warn) {
  EventTail tail(RunPaths(results / attempt.run.folder), attempt.attempt,
                 static_cast<int>(attempt.spec.strategy.ranks), warn);
  do {
    const std::vector<std::vector<Event>> events = tail.poll();
    store.ingest(attempt.run.id, attempt.attempt, events, tail.skipped_lines());
  } while (!tail.at_end());
}

Ending close_attempt(Store& store, const std::filesystem::path& results,
                     const OverAttempt& attempt) {
  check_are_there(results);  // inputs may be in it
  std::vector<RankEnd> ranks;
  if (attempt.was_started) ranks = store.rank_ends(attempt.run.id, attempt.attempt);
  Ending ending = judge({.ranks = ranks,
                         .launch = attempt.end ? std::optional(attempt.end->launch) : std::nullopt,
                         .of_job = attempt.of_job,
                         .was_requeued = attempt.was_requeued,
                         .task = attempt.task,
                         .shared_memory = attempt.shared_memory});
  const int64_t ended_unix_ms =
      attempt.end ? attempt.end->ended_unix_ms
                  : said_by_ranks(ranks).ended_unix_ms.value_or(attempt.ended_at_most_unix_ms);
  if (const auto changed = changed_input_of(store, attempt, ended_unix_ms)) {
    ending = ending_with_changed_input(RunPaths(results / attempt.run.folder), attempt.attempt,
                                       *changed, ending);
  }
  const auto& [status, reason, rank] = ending;
  store.end_attempt(attempt.run.id, attempt.attempt, status, reason, ended_unix_ms, rank);
  return ending;
}

}  // namespace fsdp
