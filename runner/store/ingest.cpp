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
  std::vector<std::vector<Event>> events_of_ranks(static_cast<size_t>(rank) + 1);
  events_of_ranks.back().assign(events.begin(), events.end());
  ingest(run_id, attempt, events_of_ranks);
}

void Store::ingest(int64_t run_id, int attempt,
                   std::span<const std::vector<Event>> events_of_ranks) {
  if (std::ranges::all_of(events_of_ranks, &std::vector<Event>::empty)) return;
  Transaction transaction(contents_->database);
  Contents::Figures& figures = contents_->figures_of(run_id, attempt);
  int rank = 0;
  for (const std::vector<Event>& events : events_of_ranks) {
    contents_->ingest_rank(run_id, attempt, rank++, events, figures);
  }
  // Seldom enough that medians over all steps cost little, however many there are.
  const int64_t new_events = figures.events - figures.events_written;
  if (64 * new_events >= figures.events) contents_->write(run_id, attempt, figures, std::nullopt);
  transaction.commit();
}

void Store::Contents::ingest_rank(int64_t run_id, int attempt, int rank,
                                  std::span<const Event> events, Figures& figures) {
  if (events.empty()) return;
  const auto [of_rank, is_new] = figures.last_sequences.emplace(rank, -1);
  if (is_new) insert_rank.run(run_id, attempt, rank);
  int64_t& last = of_rank->second;
  const int64_t recorded = last;
  int64_t last_time_unix_ms = 0;
  int64_t steps = 0;

  for (const Event& event : events) {
    if (event.sequence <= last) continue;
    last = event.sequence;
    last_time_unix_ms = event.time_unix_ms;
    figures.computed.add(rank, event.time_unix_ms, event.body);
    ++figures.events;
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
  if (last > recorded) {
    update_last_sequence.run(last, last_time_unix_ms, steps, run_id, attempt, rank);
  }
}

}  // namespace fsdp
