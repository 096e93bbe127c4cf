#include <algorithm>

#include "runner/store/store_contents.h"

namespace fsdp {
namespace {

AttemptFigures::Attempt read_attempt(Database& database, int64_t run_id, int attempt) {
  std::optional<AttemptFigures::Attempt> found;
  Statement(database,
            "select r.ranks, r.warmup_steps_excluded, r.gradient_accumulation_steps "
            "from attempts a join runs r on r.id = a.run "
            "where a.run = ? and a.attempt = ?")
      .query(
          [&](Statement& row) {
            found.emplace();
            found->ranks = row.next<int64_t>();
            found->warmup_steps_excluded = row.next<int64_t>();
            found->gradient_accumulation_steps = row.next<int64_t>();
          },
          run_id, attempt);
  if (!found) {
    throw std::runtime_error(database.file().string() + ": attempt " + std::to_string(attempt) +
                             " of run " + std::to_string(run_id) + " was never begun");
  }
  return *found;
}

template <typename Body>
void add_events(AttemptFigures& figures, Database& database, const std::string& table,
                int64_t run_id, int attempt) {
  Statement(database, "select rank, time_unix_ms, " + field_columns<Body>() + " from " + table +
                          " where run = ? and attempt = ? order by rank, sequence")
      .query(
          [&](Statement& row) {
            const auto rank = row.next<int64_t>();
            const auto time_unix_ms = row.next<int64_t>();
            figures.add(rank, time_unix_ms, row.next<Body>());
          },
          run_id, attempt);
}

void add_starts_and_ends(AttemptFigures& figures, Database& database, int64_t run_id, int attempt) {
  Statement(database,
            "select rank, host, gpu, steps_planned, resumed_from_step, started_unix_ms, "
            "ended_unix_ms, last_event_unix_ms from ranks where run = ? and attempt = ?")
      .query(
          [&](Statement& row) {
            const auto rank = row.next<int64_t>();
            RunStarted started;
            started.host = row.next<std::string>();
            started.gpu = row.next<std::string>();
            started.steps_planned = row.next<int64_t>();
            started.resumed_from_step = row.next<int64_t>();
            const auto started_unix_ms = row.next<std::optional<int64_t>>();
            if (started_unix_ms) figures.add(rank, *started_unix_ms, started);
            const auto ended_unix_ms = row.next<std::optional<int64_t>>();
            if (ended_unix_ms) figures.add(rank, *ended_unix_ms, RunFinished{});
            const auto last_event_unix_ms = row.next<std::optional<int64_t>>();
            if (last_event_unix_ms) figures.add_last_time(rank, *last_event_unix_ms);
          },
          run_id, attempt);
}

AttemptFigures read_figures(Database& database, int64_t run_id, int attempt) {
  AttemptFigures figures(read_attempt(database, run_id, attempt));
  add_starts_and_ends(figures, database, run_id, attempt);
  add_events<StepDone>(figures, database, "steps", run_id, attempt);
  add_events<EvaluationDone>(figures, database, "evaluations", run_id, attempt);
  add_events<CheckpointDone>(figures, database, "checkpoints", run_id, attempt);
  add_events<DeviceSample>(figures, database, "device_samples", run_id, attempt);
  return figures;
}

}  // namespace

Store::Contents::Figures& Store::Contents::figures_of(int64_t run_id, int attempt) {
  std::map<int64_t, int64_t> recorded;
  last_sequences.query(
      [&](Statement& row) {
        const auto rank = row.next<int64_t>();
        recorded[rank] = row.next<int64_t>();
      },
      run_id, attempt);
  const std::pair key(run_id, attempt);
  if (const auto found = figures.find(key); found != figures.end()) {
    if (found->second.last_sequences == recorded) return found->second;
    figures.erase(found);
  }
  Figures read{.computed = read_figures(database, run_id, attempt), .last_sequences = recorded};
  for (const auto& [rank, last_sequence] : recorded) read.events += last_sequence + 1;
  return figures.emplace(key, std::move(read)).first->second;
}

void Store::Contents::write(int64_t run_id, int attempt, Figures& figures, bool has_ended) {
  const AttemptFigures& computed = figures.computed;
  AttemptSummary summary = computed.summary(has_ended);
  add_losses_before(summary, run_id, attempt);
  write_summary.run(run_id, attempt, summary);
  for (int64_t rank = 0; rank < computed.ranks(); ++rank) {
    update_rank_summary.run(computed.rank_summary(rank), run_id, attempt, rank);
  }
  figures.events_written = figures.events;
}

}  // namespace fsdp
