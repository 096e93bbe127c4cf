#include "runner/store/comparison.h"

#include "runner/store/store_contents.h"
#include "runner/store/summary.h"

namespace fsdp {
namespace {

template <typename Body>
std::vector<Body> read_of_rank_0(Database& database, const std::string& table, int64_t run_id,
                                 int attempt) {
  std::vector<Body> bodies;
  Statement(database, "select " + field_columns<Body>() + " from " + table +
                          " where run = ? and attempt = ? and rank = 0 order by sequence")
      .query([&](Statement& row) { bodies.push_back(row.next<Body>()); }, run_id, attempt);
  return bodies;
}

MeasuredAttempt read_measured(Database& database, int64_t run_id, int attempt) {
  MeasuredAttempt measured;
  Statement(database,
            "select r.warmup_steps_excluded, r.gradient_accumulation_steps, a.started_unix_ms, "
            "a.ended_unix_ms, r.ranks from attempts a join runs r on r.id = a.run "
            "where a.run = ? and a.attempt = ?")
      .query(
          [&](Statement& row) {
            measured.warmup_steps_excluded = row.next<int64_t>();
            measured.gradient_accumulation_steps = row.next<int64_t>();
            measured.started_unix_ms = row.next<int64_t>();
            measured.ended_unix_ms = row.next<std::optional<int64_t>>();
            measured.ranks.resize(row.next<size_t>());
          },
          run_id, attempt);
  Statement(database,
            "select rank, host, gpu, ended_unix_ms from ranks where run = ? and attempt = ?")
      .query(
          [&](Statement& row) {
            MeasuredRank& rank = measured.ranks.at(row.next<size_t>());
            rank.host = row.next<std::string>();
            rank.gpu = row.next<std::string>();
            rank.ended_unix_ms = row.next<std::optional<int64_t>>();
          },
          run_id, attempt);
  Statement(database, "select rank, time_unix_ms, " + field_columns<StepDone>() +
                          " from steps where run = ? and attempt = ? order by rank, step")
      .query(
          [&](Statement& row) {
            MeasuredRank& rank = measured.ranks.at(row.next<size_t>());
            MeasuredStep& step = rank.steps.emplace_back();
            step.time_unix_ms = row.next<int64_t>();
            step.done = row.next<StepDone>();
          },
          run_id, attempt);
  Statement(database,
            "select time_unix_ms, host, device, utilization_percent, power_watts "
            "from device_samples where run = ? and attempt = ? order by rank, sequence")
      .query(
          [&](Statement& row) {
            MeasuredSample& sample = measured.samples.emplace_back();
            sample.time_unix_ms = row.next<int64_t>();
            sample.host = row.next<std::string>();
            sample.device = row.next<std::string>();
            sample.utilization_percent = row.next<std::optional<double>>();
            sample.power_watts = row.next<std::optional<double>>();
          },
          run_id, attempt);
  measured.evaluations = read_of_rank_0<EvaluationDone>(database, "evaluations", run_id, attempt);
  measured.checkpoints = read_of_rank_0<CheckpointDone>(database, "checkpoints", run_id, attempt);
  return measured;
}

}  // namespace

void Store::Contents::update_summary(int64_t run_id, int attempt) {
  const MeasuredAttempt measured = read_measured(database, run_id, attempt);
  Statement(database, "insert or replace into summaries (run, attempt, " +
                          field_columns<AttemptSummary>() + ") values (?, ?, " +
                          field_parameters<AttemptSummary>() + ")")
      .run(run_id, attempt, summarise(measured));
  Statement update_rank(database, "update ranks set " + field_columns<RankSummary>(" = ?") +
                                      " where run = ? and attempt = ? and rank = ?");
  for (size_t rank = 0; rank < measured.ranks.size(); ++rank) {
    update_rank.run(summarise(measured.ranks[rank], measured.warmup_steps_excluded), run_id,
                    attempt, rank);
  }
}

void Store::Contents::update_running_summaries(std::string_view experiment) {
  std::vector<std::pair<int64_t, int>> running;
  Statement(database,
            "select a.run, a.attempt from attempts a join runs r on r.id = a.run "
            "where a.status = 'running' and (?1 = '' or r.experiment = ?1)")
      .query(
          [&](Statement& row) {
            const auto run_id = row.next<int64_t>();
            running.emplace_back(run_id, row.next<int>());
          },
          experiment);
  if (running.empty() || database.read_only()) return;
  Transaction transaction(database);
  for (const auto& [run_id, attempt] : running) update_summary(run_id, attempt);
  transaction.commit();
}

std::vector<ComparisonRow> Store::comparison(std::string_view experiment) {
  contents_->update_running_summaries(experiment);
  return contents_->read_view<ComparisonRow>("comparison", experiment);
}

std::vector<RankRow> Store::comparison_per_rank(std::string_view experiment) {
  contents_->update_running_summaries(experiment);
  return contents_->read_view<RankRow>("comparison_per_rank", experiment);
}

std::vector<RankEnd> Store::rank_ends(int64_t run_id, int attempt) const {
  Database& database = contents_->database;
  std::vector<RankEnd> ends(
      Statement(database, "select ranks from runs where id = ?").value<size_t>(run_id).value_or(0));
  for (size_t rank = 0; rank < ends.size(); ++rank) ends[rank].rank = static_cast<int>(rank);
  Statement(database,
            "select rank, end_kind, coalesce(exit_code, 0), coalesce(reason, ''), "
            "coalesce((select max(step) from steps s "
            "where s.run = k.run and s.attempt = k.attempt and s.rank = k.rank), 0), "
            "last_event_unix_ms from ranks k where run = ? and attempt = ?")
      .query(
          [&](Statement& row) {
            const RankEnd end = row.next<RankEnd>();
            ends.at(static_cast<size_t>(end.rank)) = end;
          },
          run_id, attempt);
  return ends;
}

}  // namespace fsdp
