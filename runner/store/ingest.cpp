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

void Store::ingest(int64_t run_id, int attempt, std::span<const std::vector<Event>> events_of_ranks,
                   std::span<const int64_t> skipped_lines) {
  if (std::ranges::all_of(events_of_ranks, &std::vector<Event>::empty) &&
      std::ranges::all_of(skipped_lines, [](int64_t lines) { return lines == 0; })) {
    return;
  }
  Transaction transaction(contents_->database);
  Contents::Figures& figures = contents_->figures_of(run_id, attempt);
  for (size_t rank = 0; rank < events_of_ranks.size(); ++rank) {
    contents_->ingest_rank(run_id, attempt, static_cast<int>(rank), events_of_ranks[rank],
                           rank < skipped_lines.size() ? skipped_lines[rank] : 0, figures);
  }
  // Figures are written so seldom that medians over all steps cost little, even for many steps.
  const int64_t new_events = figures.events - figures.events_written;
  if (new_events > 0 && 64 * new_events >= figures.events) {
    contents_->write(run_id, attempt, figures, /*has_ended=*/false);
  }
  transaction.commit();
}

void Store::Contents::ingest_rank(int64_t run_id, int attempt, int rank,
                                  std::span<const Event> events, int64_t skipped_lines,
                                  Figures& figures) {
  if (events.empty() && skipped_lines == 0) return;
  const auto [of_rank, is_new] = figures.last_sequences.emplace(rank, -1);
  if (is_new) insert_rank.run(run_id, attempt, rank);
  if (skipped_lines > 0)
    update_skipped_lines.run(skipped_lines, run_id, attempt, rank, skipped_lines);
  int64_t& last = of_rank->second;
  const int64_t recorded = last;
  int64_t last_time_unix_ms = 0;
  int64_t steps = 0;

  for (const Event& event : events) {
    if (event.sequence <= last) continue;
    last = event.sequence;
    last_time_unix_ms = event.time_unix_ms;
    const bool is_start = std::holds_alternative<RunStarted>(event.body);
    const int64_t since_start_ms = is_start ? event.elapsed_ms.value_or(0) : 0;
    figures.computed.add(rank, event.time_unix_ms - since_start_ms, event.body);
    figures.computed.add_last_time(rank, event.time_unix_ms);
    ++figures.events;
    const auto insert = [&](Statement& statement, const auto& body) {
      statement.run(run_id, attempt, rank, event.sequence, event.time_unix_ms, body);
    };
    const auto end = [&](RankEndKind kind, int64_t exit_code, std::string_view reason) {
      update_end.run(kind, event.time_unix_ms, exit_code, reason, run_id, attempt, rank);
    };
    std::visit(
        Overloaded{
            [&](const RunStarted& started) {
              RunStarted facts = started;
              facts.rank = rank;
              update_start.run(event.time_unix_ms - since_start_ms, facts, run_id, attempt, rank);
            },
            [&](const StepDone& step) {
              insert(insert_step, step);
              ++steps;
            },
            [&](const EvaluationDone& evaluation) { insert(insert_evaluation, evaluation); },
            [&](const CheckpointDone& checkpoint) { insert(insert_checkpoint, checkpoint); },
            [&](const DeviceSample& sample) { insert(insert_device_sample, sample); },
            [](const MemoryPeak&) {}, [&](const CpuUse& use) { insert(insert_cpu_use, use); },
            [&](const RunFinished& finished) {
              end(RankEndKind::kFinished, 0, figures.computed.what_is_missing(rank, finished));
            },
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
