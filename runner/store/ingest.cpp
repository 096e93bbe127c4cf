#include <algorithm>
#include <ranges>
#include <type_traits>

#include "runner/store/schema.h"
#include "runner/store/store.h"

// Records events, and the figures that follow from them.
namespace fsdp {
namespace {

const std::string kOfRank = kOfAttempt + " and rank = ?";

}  // namespace

AttemptFigures Store::read_figures(int64_t run_id, int attempt) const {
  const auto found =
      sql("select r.ranks, r.warmup_steps_excluded, r.gradient_accumulation_steps, " +
          field_columns<PrecisionSpec>("'", "r.spec ->> '$.precision.") +
          " from attempts a join runs r on r.id = a.run where a.run = ? and a.attempt = ?")
          .value<int64_t, int64_t, int64_t, PrecisionSpec>(run_id, attempt);
  if (!found) {
    throw std::runtime_error(fmt::format("{}: attempt {} of run {} was never begun",
                                         database_.file().string(), attempt, run_id));
  }
  const auto& [ranks, warmup_steps_excluded, gradient_accumulation_steps, precision] = *found;
  AttemptFigures figures(
      {ranks, warmup_steps_excluded, gradient_accumulation_steps, precision.compute()});
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
  if (!goes_on) return;  // an attempt without a first step has no losses
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
  const AttemptFigures& computed = figures.computed;
  AttemptSummary summary = computed.summary(has_ended);
  add_losses_before(summary, run_id, attempt);
  sql("insert or replace into summaries " +
      values_of("run, attempt, " + field_columns<AttemptSummary>()))
      .run(run_id, attempt, summary);
  Statement& update_rank = sql("update ranks set " + field_columns<RankSummary>(" = ?") + kOfRank);
  for (int64_t rank = 0; rank < computed.ranks(); ++rank) {
    update_rank.run(computed.rank_summary(rank), run_id, attempt, rank);
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
  // Figures are written so seldom that medians over all steps cost little, even for many steps.
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
  int64_t last_time_unix_ms = 0;
  int64_t steps = 0;
  for (const Event& event : events) {
    if (event.sequence <= last) continue;
    last = event.sequence;
    last_time_unix_ms = event.time_unix_ms;
    const bool is_start = std::holds_alternative<RunStarted>(event.body);
    const int64_t time_unix_ms = event.time_unix_ms - (is_start ? event.elapsed_ms.value_or(0) : 0);
    figures.computed.add(rank, time_unix_ms, event.body);
    figures.computed.add_last_time(rank, event.time_unix_ms);
    ++figures.events;
    steps += std::holds_alternative<StepDone>(event.body) ? 1 : 0;
    const auto end = [&](RankEndKind kind, int64_t exit_code, std::string_view reason) {
      sql("update ranks set end_kind = ?, ended_unix_ms = ?, exit_code = ?, reason = ?" + kOfRank)
          .run(kind, time_unix_ms, exit_code, reason, run_id, attempt, rank);
    };
    const auto record = [&]<typename Body>(const Body& body) {
      if constexpr (event_table<Body>.name != nullptr) {
        static const std::string kInsert =
            std::string("insert or ignore into ") + event_table<Body>.name + " " +
            values_of("run, attempt, " + field_columns<Recorded<Body>>());
        sql(kInsert).run(run_id, attempt, rank, event.sequence, time_unix_ms, body);
      } else if constexpr (std::same_as<Body, RunStarted>) {
        RunStarted facts = body;
        facts.rank = rank;
        sql("update ranks set started_unix_ms = ?, " + field_columns<RunStarted>(" = ?") + kOfRank)
            .run(time_unix_ms, facts, run_id, attempt, rank);
      } else if constexpr (std::same_as<Body, RunFinished>) {
        end(RankEndKind::kFinished, 0, figures.computed.what_is_missing(rank, body));
      } else if constexpr (std::same_as<Body, RunFailed>) {
        end(RankEndKind::kFailed, body.exit_code, body.reason);
      } else if constexpr (std::same_as<Body, RunInterrupted>) {
        end(RankEndKind::kInterrupted, 0, "");
      }
    };
    std::visit(record, event.body);
  }
  if (last > recorded) {
    sql("update ranks set last_sequence = ?, last_event_unix_ms = ?, "
        "steps = coalesce(steps, 0) + ?" +
        kOfRank)
        .run(last, last_time_unix_ms, steps, run_id, attempt, rank);
  }
}

}  // namespace fsdp
