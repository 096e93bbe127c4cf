#include <algorithm>
#include <iterator>
#include <ranges>
#include <set>
#include <type_traits>

#include "contract/spec/run_spec_json.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/store/results_unavailable.h"
#include "runner/store/schema.h"
#include "runner/store/store.h"

// Records the events of ranks and the figures that follow from them, and reads both.
namespace fsdp {
namespace {

const std::string kOfRank = kOfAttempt + " and rank = ?";

}  // namespace

AttemptReports Store::read_figures(int64_t run_id, int attempt) const {
  const auto found = sql("select 1 from attempts" + kOfAttempt).value<int>(run_id, attempt);
  if (!found) {
    throw ResultsUnavailable(
        fmt::format("{}: attempt {} of run {} was never begun; another program replaced the file: "
                    "put it back",
                    database_.file().string(), attempt, run_id));
  }
  const RunSpec spec = recorded_spec(run_id);
  AttemptReports figures(
      {.ranks = spec.strategy.ranks,
       .warmup_steps_excluded = spec.train.warmup_steps_excluded,
       .gradient_accumulation_steps = spec.batch.gradient_accumulation_steps.value_or(1),
       .compute = spec.precision.compute()});
  using Time = std::optional<int64_t>;
  for (const auto& [started, ended, last_event, facts] :
       sql("select started_unix_ms, ended_unix_ms, last_event_unix_ms, " +
           field_columns<RunStarted>() + " from ranks" + kOfAttempt)
           .rows<Time, Time, Time, RunStarted>(run_id, attempt)) {
    if (started) figures.add(facts.rank, *started, facts);
    if (ended) figures.add(facts.rank, *ended, RunFinished{});
    if (last_event) figures.add_last_time(facts.rank, *last_event);
  }
  visit_event_tables([&]<typename Body>(std::type_identity<Body>) {
    const auto add = [&](Statement& row) {
      const auto event = row.template next<Recorded<Body>>();
      figures.add(event.rank, event.time_unix_ms, event.body);
    };
    sql(select<Recorded<Body>>(event_table<Body>.name + kOfAttempt + " order by rank, sequence"))
        .query(add, run_id, attempt);
  });
  return figures;
}

Store::Figures& Store::figures_of(int64_t run_id, int attempt) {
  std::map<int64_t, int64_t> recorded;
  for (const auto& [rank, last] : sql("select rank, last_sequence from ranks" + kOfAttempt)
                                      .rows<int64_t, int64_t>(run_id, attempt)) {
    recorded[rank] = last;
  }
  const std::pair key(run_id, attempt);
  if (const auto found = figures_.find(key); found != figures_.end()) {
    if (found->second.last_sequences == recorded) return found->second;
    figures_.erase(found);
  }
  Figures read{.computed = read_figures(run_id, attempt), .last_sequences = recorded};
  for (const auto& [rank, last_sequence] : recorded) read.events += last_sequence + 1;
  return figures_.emplace(key, std::move(read)).first->second;
}

void Store::add_losses_before(AttemptSummary& summary, int64_t run_id, int attempt) const {
  const bool goes_on =
      sql("select 1 from ranks" + kOfAttempt + " and resumed_from_step > 0 limit 1")
          .value<int64_t>(run_id, attempt)
          .has_value();
  if (!goes_on) return;  // its own first losses are the run's
  std::vector<Stretch> course = stretches(run_id, attempt);
  course.pop_back();
  if (course.empty()) return;
  summary.loss_first =
      sql("select loss from steps" + kOfAttempt + " and rank = 0 order by step limit 1")
          .value<std::optional<double>>(run_id, course.front().attempt)
          .value_or(summary.loss_first);
  Statement& evaluations =
      sql("select loss from evaluations" + kOfAttempt +
          " and rank = 0 and step <= ? and token_accuracy is not null order by sequence desc");
  for (const Stretch& stretch : course | std::views::reverse) {
    for (const auto& loss :
         evaluations.rows<std::optional<double>>(run_id, stretch.attempt, stretch.last_step)) {
      summary.validation_loss_first = loss;
      auto& best = summary.validation_loss_best;
      if (loss) best = std::min(*loss, best.value_or(*loss));
    }
  }
}

void Store::write_figures(int64_t run_id, int attempt, Figures& figures, bool has_ended) {
  const AttemptReports& computed = figures.computed;
  AttemptSummary summary = computed.summary(has_ended);
  add_losses_before(summary, run_id, attempt);
  sql("insert or replace into summaries " +
      values_of("run, attempt, " + field_columns<AttemptSummary>()))
      .run(run_id, attempt, summary);
  Statement& update_rank = sql("update ranks set " + field_columns<RankSummary>(" = ?") + kOfRank);
  for (const RankState& rank : computed.ranks()) {
    update_rank.run(computed.rank_summary(rank.rank), run_id, attempt, rank.rank);
  }
  figures.events_written = figures.events;
}

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
  Transaction transaction(database_);
  Figures& figures = figures_of(run_id, attempt);
  for (size_t rank = 0; rank < events_of_ranks.size(); ++rank) {
    ingest_rank(run_id, attempt, static_cast<int>(rank), events_of_ranks[rank],
                rank < skipped_lines.size() ? skipped_lines[rank] : 0, figures);
  }
  // Medians over all steps cost time, so figures are written only after 1/64 more events.
  const int64_t new_events = figures.events - figures.events_written;
  if (new_events > 0 && 64 * new_events >= figures.events) {
    write_figures(run_id, attempt, figures, /*has_ended=*/false);
  }
  transaction.commit();
}

void Store::ingest_rank(int64_t run_id, int attempt, int rank, std::span<const Event> events,
                        int64_t skipped_lines, Figures& figures) {
  if (events.empty() && skipped_lines == 0) return;
  const auto [of_rank, is_new] = figures.last_sequences.emplace(rank, -1);
  if (is_new) {
    sql("insert into ranks (run, attempt, rank, last_sequence) values (?, ?, ?, -1)")
        .run(run_id, attempt, rank);
  }
  if (skipped_lines > 0) {
    sql("update ranks set skipped_lines = max(skipped_lines, ?)" + kOfRank)
        .run(skipped_lines, run_id, attempt, rank);
  }
  int64_t& last = of_rank->second;
  const int64_t recorded = last;
  for (const Event& event : events) {
    if (event.sequence <= last) continue;
    last = event.sequence;
    figures.computed.add(rank, event);
    ++figures.events;
    const auto record = [&]<typename Body>(const Body& body) {
      if constexpr (event_table<Body>.name != nullptr) {
        static const std::string kInsert =
            std::string("insert or ignore into ") + event_table<Body>.name + " " +
            values_of("run, attempt, " + field_columns<Recorded<Body>>());
        sql(kInsert).run(run_id, attempt, rank, event.sequence, event.time_unix_ms, body);
      } else if constexpr (std::same_as<Body, RunStarted>) {
        RunStarted facts = body;
        facts.rank = rank;
        sql("update ranks set " + field_columns<RunStarted>(" = ?") + kOfRank)
            .run(facts, run_id, attempt, rank);
      }
    };
    std::visit(record, event.body);
  }
  if (last == recorded) return;
  const RankState& state = figures.computed.ranks().at(static_cast<size_t>(rank));
  sql("update ranks set last_sequence = ?, last_event_unix_ms = ?, started_unix_ms = ?, steps = ?" +
      kOfRank)
      .run(last, state.last_event_unix_ms, state.started_unix_ms, state.steps, run_id, attempt,
           rank);
  if (state.kind == RankEndKind::kNone) return;
  sql("update ranks set end_kind = ?, ended_unix_ms = ?, exit_code = ?, reason = ?" + kOfRank)
      .run(state.kind, state.last_event_unix_ms, state.exit_code, state.reason, run_id, attempt,
           rank);
}

// Returns the view's rows; an empty `experiment` means all.
template <typename Row>
std::vector<Row> Store::rows_of(const std::string& view, std::string_view experiment) const {
  if (experiment.empty()) return sql(select<Row>(view)).template rows<Row>();
  return sql(select<Row>(view + " where experiment = ?")).template rows<Row>(experiment);
}

template <typename Body>
std::vector<Recorded<Body>> Store::events(int64_t run_id, int attempt, int most,
                                          const Recorded<Body>* after) const {
  const auto [table, number] = event_table<Body>;
  const std::string place = fmt::format("rank, {}", number);
  int64_t last = after ? after->sequence : 0;
  if constexpr (std::same_as<Body, StepDone>) last = after ? after->body.step : 0;
  return sql(select<Recorded<Body>>(table + kOfAttempt + " and (" + place + ") > (?, ?) order by " +
                                    place + " limit ?"))
      .template rows<Recorded<Body>>(run_id, attempt, after ? after->rank : -1, last, most);
}

template std::vector<Recorded<StepDone>> Store::events(int64_t, int, int,
                                                       const Recorded<StepDone>*) const;
template std::vector<Recorded<EvaluationDone>> Store::events(int64_t, int, int,
                                                             const Recorded<EvaluationDone>*) const;
template std::vector<Recorded<CheckpointDone>> Store::events(int64_t, int, int,
                                                             const Recorded<CheckpointDone>*) const;
template std::vector<Recorded<DeviceSample>> Store::events(int64_t, int, int,
                                                           const Recorded<DeviceSample>*) const;

std::optional<MemoryPeak> Store::memory_peak(int64_t run_id, int attempt) const {
  const std::string peaks = event_table<MemoryPeak>.name + kOfAttempt;
  return sql(select<MemoryPeak>(peaks + " order by memory_allocated_bytes_max desc limit 1"))
      .value<MemoryPeak>(run_id, attempt);
}

std::vector<StepDone> Store::newest_steps(int64_t run_id, int attempt, int rank, int count) const {
  auto steps =
      sql(select<StepDone>("steps" + kOfAttempt + " and rank = ? order by step desc limit ?"))
          .rows<StepDone>(run_id, attempt, rank, count);
  std::ranges::reverse(steps);
  return steps;
}

std::vector<Recorded<DeviceSample>> Store::newest_device_samples(int64_t run_id,
                                                                 int attempt) const {
  constexpr int kMostDevices = 64;  // that a rank samples at the same time
  std::set<std::pair<std::string, std::string>> seen;
  std::vector<Recorded<DeviceSample>> samples;
  Statement& of_rank = sql(select<Recorded<DeviceSample>>(
      "device_samples" + kOfAttempt + " and rank = ? order by sequence desc limit ?"));
  for (const int rank :
       sql("select rank from ranks" + kOfAttempt + " order by rank").rows<int>(run_id, attempt)) {
    for (auto& sample : of_rank.rows<Recorded<DeviceSample>>(run_id, attempt, rank, kMostDevices)) {
      const bool is_new = seen.emplace(sample.body.host, sample.body.device).second;
      if (is_new) samples.push_back(std::move(sample));
    }
  }
  return samples;
}

std::vector<RunStarted> Store::rank_facts(int64_t run_id, int attempt) const {
  return sql(select<RunStarted>("ranks" + kOfAttempt +
                                " and started_unix_ms is not null order by rank"))
      .rows<RunStarted>(run_id, attempt);
}

std::vector<Stretch> Store::stretches(int64_t run_id, int attempt) const {
  Statement& resumed_from_step = sql("select resumed_from_step from ranks" + kOfAttempt +
                                     " and started_unix_ms is not null order by rank");
  // The earlier attempt that came nearest to a step; of several, the newest. A newer attempt that
  // stopped before the step did not write the checkpoint.
  Statement& that_reached =
      sql("select attempt from (select attempt, (select max(step) from steps s "
          "  where s.run = a.run and s.attempt = a.attempt and s.rank = 0) as last_step "
          "  from attempts a where run = ?1 and attempt < ?2) where last_step > 0 and ?3 > 0 "
          "order by min(last_step, ?3) desc, attempt desc limit 1");
  std::vector<Stretch> found;
  for (Stretch stretch{.attempt = attempt}; stretch.attempt > 0;) {
    found.push_back(stretch);
    const auto begin = resumed_from_step.value<int64_t>(run_id, stretch.attempt);
    const int64_t step = std::min(stretch.last_step, begin.value_or(stretch.last_step));
    // The attempt before wrote the checkpoint that this one resumed from.
    stretch = {that_reached.value<int>(run_id, stretch.attempt, step).value_or(0), step};
  }
  std::ranges::reverse(found);
  return found;
}

std::vector<StepLoss> Store::losses(int64_t run_id, int attempt) const {
  Statement& of_stretch =
      sql(select<StepLoss>("steps" + kOfAttempt + " and rank = 0 and step <= ? order by step"));
  std::vector<StepLoss> found;
  for (const Stretch& stretch : stretches(run_id, attempt)) {
    std::ranges::move(of_stretch.rows<StepLoss>(run_id, stretch.attempt, stretch.last_step),
                      std::back_inserter(found));
  }
  return found;
}

std::vector<AttemptRecord> Store::attempts(int64_t run_id) const {
  return sql(select<AttemptRecord>("attempts where run = ? order by attempt"))
      .rows<AttemptRecord>(run_id);
}

Provenance Store::provenance(int64_t run_id, int attempt) const {
  return sql(select<Provenance>("attempts" + kOfAttempt))
      .value<Provenance>(run_id, attempt)
      .value_or(Provenance{});
}

std::string Store::experiment_text(int64_t run_id, int attempt) const {
  return sql("select text from attempts join experiment_texts on digest = experiment_text_digest" +
             kOfAttempt)
      .value<std::string>(run_id, attempt)
      .value_or("");
}

std::string Store::spec_text(int64_t run_id) const { return to_yaml(spec(run_id)); }

RunSpec Store::spec(int64_t run_id) const { return resolved(recorded_spec(run_id)); }

RunSpec Store::recorded_spec(int64_t run_id) const {
  const auto text = sql("select spec from runs where id = ?").value<std::string>(run_id);
  return run_spec_from_json(text.value_or("{}"), place_of_spec(run_id));
}

std::string Store::place_of_spec(int64_t run_id) const {
  return fmt::format("{}: the specification of run {}", database_.file().string(), run_id);
}

std::vector<ComparisonRow> Store::comparison(std::string_view experiment, Listed listed) const {
  std::vector<ComparisonRow> rows;
  std::map<int64_t, size_t> places;
  for (auto& [row, spec] : rows_of<StoredRow>(comparison_rows(listed), experiment)) {
    row.spec = run_spec_from_json(spec, place_of_spec(row.run));
    places.emplace(row.run, rows.size());
    rows.push_back(std::move(row));
  }
  const std::string times =
      "(select t.*, r.experiment from attempt_times t join runs r on r.id = t.run)";
  for (const AttemptTime& attempt : rows_of<AttemptTime>(times, experiment)) {
    const auto place = places.find(attempt.run);
    if (place != places.end()) add_held_time(rows[place->second], attempt);
  }
  return rows;
}

std::vector<RankRow> Store::comparison_per_rank(std::string_view experiment, Listed listed) const {
  return rows_of<RankRow>(comparison_per_rank_rows(listed), experiment);
}

std::vector<StatusRow> Store::statuses(std::string_view experiment) const {
  return rows_of<StatusRow>("statuses", experiment);
}

}  // namespace fsdp
