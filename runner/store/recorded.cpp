#include <algorithm>
#include <set>

#include "contract/spec/run_spec_yaml.h"
#include "runner/store/store_contents.h"

// Reads the records of attempts and runs from the database, unchanged.
namespace fsdp {
namespace {

// Returns the view's rows; an empty `experiment` means all.
template <typename Row>
std::vector<Row> rows_of(Database& database, const std::string& view, std::string_view experiment) {
  if (experiment.empty()) return Statement(database, select<Row>(view)).template rows<Row>();
  return Statement(database, select<Row>(view + " where experiment = ?"))
      .template rows<Row>(experiment);
}

}  // namespace

template <typename Body>
std::vector<Recorded<Body>> Store::events(int64_t run_id, int attempt) const {
  const auto [table, number] = event_table<Body>;
  return Statement(contents_->database,
                   select<Recorded<Body>>(fmt::format(
                       "{} where run = ? and attempt = ? order by rank, {}", table, number)))
      .template rows<Recorded<Body>>(run_id, attempt);
}

template std::vector<Recorded<StepDone>> Store::events(int64_t, int) const;
template std::vector<Recorded<EvaluationDone>> Store::events(int64_t, int) const;
template std::vector<Recorded<CheckpointDone>> Store::events(int64_t, int) const;
template std::vector<Recorded<DeviceSample>> Store::events(int64_t, int) const;

std::vector<StepDone> Store::newest_steps(int64_t run_id, int attempt, int rank, int count) const {
  auto steps = Statement(contents_->database,
                         select<StepDone>("steps where run = ? and attempt = ? and rank = ? "
                                          "order by step desc limit ?"))
                   .rows<StepDone>(run_id, attempt, rank, count);
  std::ranges::reverse(steps);
  return steps;
}

std::vector<Recorded<DeviceSample>> Store::newest_device_samples(int64_t run_id,
                                                                 int attempt) const {
  constexpr int kMostDevices = 64;  // that a rank samples at the same time
  std::set<std::pair<std::string, std::string>> seen;
  std::vector<Recorded<DeviceSample>> samples;
  Statement of_rank(
      contents_->database,
      select<Recorded<DeviceSample>>("device_samples where run = ? and attempt = ? and rank = ? "
                                     "order by sequence desc limit ?"));
  for (const RankEnd& rank : rank_ends(run_id, attempt)) {
    for (auto& sample :
         of_rank.rows<Recorded<DeviceSample>>(run_id, attempt, rank.rank, kMostDevices)) {
      const bool is_new = seen.emplace(sample.body.host, sample.body.device).second;
      if (is_new) samples.push_back(std::move(sample));
    }
  }
  return samples;
}

std::vector<RunStarted> Store::rank_facts(int64_t run_id, int attempt) const {
  return Statement(contents_->database,
                   select<RunStarted>("ranks where run = ? and attempt = ? "
                                      "and started_unix_ms is not null order by rank"))
      .rows<RunStarted>(run_id, attempt);
}

std::vector<RankEnd> Store::rank_ends(int64_t run_id, int attempt) const {
  Database& database = contents_->database;
  std::vector<RankEnd> ends(
      Statement(database, "select ranks from runs where id = ?").value<size_t>(run_id).value_or(0));
  for (size_t rank = 0; rank < ends.size(); ++rank) ends[rank].rank = static_cast<int>(rank);
  Statement recorded(database,
                     "select rank, end_kind, coalesce(exit_code, 0), coalesce(reason, ''), "
                     "coalesce((select max(step) from steps s "
                     "where s.run = k.run and s.attempt = k.attempt and s.rank = k.rank), 0), "
                     "last_event_unix_ms from ranks k where run = ? and attempt = ?");
  for (const auto& [rank, kind, exit_code, reason, last_step, last_event_unix_ms] :
       recorded.rows<int, RankEndKind, int64_t, std::string, int64_t, std::optional<int64_t>>(
           run_id, attempt)) {
    ends.at(static_cast<size_t>(rank)) = {rank,   kind,      exit_code,
                                          reason, last_step, last_event_unix_ms};
  }
  return ends;
}

std::vector<AttemptRecord> Store::attempts(int64_t run_id) const {
  return Statement(contents_->database,
                   select<AttemptRecord>("attempts where run = ? order by attempt"))
      .rows<AttemptRecord>(run_id);
}

Provenance Store::provenance(int64_t run_id, int attempt) const {
  return Statement(contents_->database,
                   select<Provenance>("attempts where run = ? and attempt = ?"))
      .value<Provenance>(run_id, attempt)
      .value_or(Provenance{});
}

std::string Store::experiment_text(int64_t run_id, int attempt) const {
  return Statement(contents_->database,
                   "select t.text from attempts a "
                   "join experiment_texts t on t.digest = a.experiment_text_digest "
                   "where a.run = ? and a.attempt = ?")
      .value<std::string>(run_id, attempt)
      .value_or("");
}

std::string Store::spec_text(int64_t run_id) const { return to_yaml(spec(run_id)); }

RunSpec Store::spec(int64_t run_id) const {
  return run_spec_from_yaml(  // JSON is YAML
      Statement(contents_->database, "select spec from runs where id = ?")
          .value<std::string>(run_id)
          .value_or(""),
      {.name = "the specification of run " + std::to_string(run_id), .folder = {}});
}

std::vector<ComparisonRow> Store::comparison(std::string_view experiment, Listed listed) const {
  return rows_of<ComparisonRow>(contents_->database, comparison_rows(listed), experiment);
}

std::vector<RankRow> Store::comparison_per_rank(std::string_view experiment, Listed listed) const {
  return rows_of<RankRow>(contents_->database, comparison_per_rank_rows(listed), experiment);
}

std::vector<StatusRow> Store::statuses(std::string_view experiment) const {
  return rows_of<StatusRow>(contents_->database, "statuses", experiment);
}

}  // namespace fsdp
