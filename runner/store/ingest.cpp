#include <algorithm>

#include "runner/store/store_contents.h"

namespace fsdp {
void Store::ingest(int64_t run_id, int attempt, int rank, std::span<const Event> events) {
  if (events.empty()) return;
  Transaction transaction(contents_->database);
  contents_->ingest_rank(run_id, attempt, rank, events);
  transaction.commit();
}

void Store::ingest(int64_t run_id, int attempt,
                   std::span<const std::vector<Event>> events_of_ranks) {
  if (std::ranges::all_of(events_of_ranks, &std::vector<Event>::empty)) return;
  Transaction transaction(contents_->database);
  int rank = 0;
  for (const std::vector<Event>& events : events_of_ranks) {
    contents_->ingest_rank(run_id, attempt, rank++, events);
  }
  transaction.commit();
}

void Store::Contents::ingest_rank(int64_t run_id, int attempt, int rank,
                                  std::span<const Event> events) {
  if (events.empty()) return;
  const std::optional<int64_t> recorded = last_sequence.value<int64_t>(run_id, attempt, rank);
  if (!recorded) insert_rank.run(run_id, attempt, rank);
  int64_t last = recorded.value_or(-1);
  int64_t last_time_unix_ms = 0;

  for (const Event& event : events) {
    if (event.sequence <= last) continue;
    last = event.sequence;
    last_time_unix_ms = event.time_unix_ms;
    if (const auto* step = std::get_if<StepDone>(&event.body)) {
      insert_step.run(run_id, attempt, rank, event.sequence, event.time_unix_ms, *step);
    } else if (const auto* started = std::get_if<RunStarted>(&event.body)) {
      RunStarted facts = *started;
      facts.rank = rank;
      update_start.run(event.time_unix_ms, facts, run_id, attempt, rank);
    } else if (std::holds_alternative<RunFinished>(event.body)) {
      update_end.run(RankEndKind::kFinished, event.time_unix_ms, 0, "", run_id, attempt, rank);
    } else if (const auto* failed = std::get_if<RunFailed>(&event.body)) {
      update_end.run(RankEndKind::kFailed, event.time_unix_ms, failed->exit_code, failed->reason,
                     run_id, attempt, rank);
    } else if (std::holds_alternative<RunInterrupted>(event.body)) {
      update_end.run(RankEndKind::kInterrupted, event.time_unix_ms, 0, "", run_id, attempt, rank);
    }
  }
  if (last > recorded.value_or(-1)) {
    update_last_sequence.run(last, last_time_unix_ms, run_id, attempt, rank);
  }
}

}  // namespace fsdp
