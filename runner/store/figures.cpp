#include <algorithm>

#include "runner/store/store_contents.h"

namespace fsdp {
namespace {

std::optional<Dtype> read_compute(Database& database, int64_t run_id) {
  using Name = std::optional<std::string>;
  const auto names =
      Statement(database,
                "select spec ->> '$.precision.kind', spec ->> '$.precision.parameters',"
                " spec ->> '$.precision.reduction', spec ->> '$.precision.buffers' "
                "from runs where id = ?")
          .value<Name, Name, Name, Name>(run_id);
  if (!names) return std::nullopt;
  const auto& [kind, parameters, reduction, buffers] = *names;
  const auto known_kind = enum_from_name<PrecisionKind>(kind.value_or(""));
  if (!known_kind) return std::nullopt;
  PrecisionSpec precision;
  precision.kind = *known_kind;
  precision.parameters = enum_from_name<Dtype>(parameters.value_or(""));
  precision.reduction = enum_from_name<Dtype>(reduction.value_or(""));
  precision.buffers = enum_from_name<Dtype>(buffers.value_or(""));
  return precision.compute();
}

AttemptFigures::Attempt read_attempt(Database& database, int64_t run_id, int attempt) {
  const auto found =
      Statement(database,
                "select r.ranks, r.warmup_steps_excluded, r.gradient_accumulation_steps "
                "from attempts a join runs r on r.id = a.run where a.run = ? and a.attempt = ?")
          .value<int64_t, int64_t, int64_t>(run_id, attempt);
  if (found) {
    const auto& [ranks, warmup_steps_excluded, gradient_accumulation_steps] = *found;
    return {.ranks = ranks,
            .warmup_steps_excluded = warmup_steps_excluded,
            .gradient_accumulation_steps = gradient_accumulation_steps,
            .compute = read_compute(database, run_id)};
  }
  throw std::runtime_error(fmt::format("{}: attempt {} of run {} was never begun",
                                       database.file().string(), attempt, run_id));
}

template <typename Body>
void add_events(AttemptFigures& figures, Database& database, int64_t run_id, int attempt) {
  Statement(database, select<Recorded<Body>>(
                          fmt::format("{} where run = ? and attempt = ? order by rank, sequence",
                                      event_table<Body>.name)))
      .query(
          [&](Statement& row) {
            const auto event = row.next<Recorded<Body>>();
            figures.add(event.rank, event.time_unix_ms, event.body);
          },
          run_id, attempt);
}

void add_starts_and_ends(AttemptFigures& figures, Database& database, int64_t run_id, int attempt) {
  using Time = std::optional<int64_t>;
  Statement ranks(database, "select started_unix_ms, ended_unix_ms, last_event_unix_ms, " +
                                field_columns<RunStarted>() +
                                " from ranks where run = ? and attempt = ?");
  for (const auto& [started, ended, last_event, facts] :
       ranks.rows<Time, Time, Time, RunStarted>(run_id, attempt)) {
    if (started) figures.add(facts.rank, *started, facts);
    if (ended) figures.add(facts.rank, *ended, RunFinished{});
    if (last_event) figures.add_last_time(facts.rank, *last_event);
  }
}

AttemptFigures read_figures(Database& database, int64_t run_id, int attempt) {
  AttemptFigures figures(read_attempt(database, run_id, attempt));
  add_starts_and_ends(figures, database, run_id, attempt);
  add_events<StepDone>(figures, database, run_id, attempt);
  add_events<EvaluationDone>(figures, database, run_id, attempt);
  add_events<CheckpointDone>(figures, database, run_id, attempt);
  add_events<DeviceSample>(figures, database, run_id, attempt);
  add_events<CpuUse>(figures, database, run_id, attempt);
  return figures;
}

}  // namespace

Store::Contents::Figures& Store::Contents::figures_of(int64_t run_id, int attempt) {
  std::map<int64_t, int64_t> recorded;
  for (const auto& [rank, last] : last_sequences.rows<int64_t, int64_t>(run_id, attempt)) {
    recorded[rank] = last;
  }
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
