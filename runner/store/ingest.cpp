#include <algorithm>

#include "runner/store/store_contents.h"

namespace fsdp {
namespace {

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

}  // namespace

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
  int64_t steps = 0;

  for (const Event& event : events) {
    if (event.sequence <= last) continue;
    last = event.sequence;
    last_time_unix_ms = event.time_unix_ms;
    const auto insert = [&](Statement& statement, const auto& body) {
      statement.run(run_id, attempt, rank, event.sequence, event.time_unix_ms, body);
    };
    const auto end = [&](RankEndKind kind, int64_t exit_code, std::string_view reason) {
      update_end.run(kind, event.time_unix_ms, exit_code, reason, run_id, attempt, rank);
    };
    std::visit(
        Overloaded{[&](const RunStarted& started) {
                     RunStarted facts = started;
                     facts.rank = rank;
                     update_start.run(event.time_unix_ms, facts, run_id, attempt, rank);
                   },
                   [&](const StepDone& step) {
                     insert(insert_step, step);
                     ++steps;
                   },
                   [&](const EvaluationDone& evaluation) { insert(insert_evaluation, evaluation); },
                   [&](const CheckpointDone& checkpoint) { insert(insert_checkpoint, checkpoint); },
                   [&](const DeviceSample& sample) { insert(insert_device_sample, sample); },
                   [&](const RunFinished&) { end(RankEndKind::kFinished, 0, ""); },
                   [&](const RunFailed& failed) {
                     end(RankEndKind::kFailed, failed.exit_code, failed.reason);
                   },
                   [&](const RunInterrupted&) { end(RankEndKind::kInterrupted, 0, ""); }},
        event.body);
  }
  if (last > recorded.value_or(-1)) {
    update_last_sequence.run(last, last_time_unix_ms, steps, run_id, attempt, rank);
  }
}

}  // namespace fsdp
