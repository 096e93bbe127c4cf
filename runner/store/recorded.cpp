#include <algorithm>
#include <iterator>
#include <set>

#include "contract/spec/run_spec_yaml.h"
#include "runner/store/schema.h"
#include "runner/store/store.h"

// Reads the records of attempts and runs from the database, unchanged.
namespace fsdp {

// Returns the view's rows; an empty `experiment` means all.
template <typename Row>
std::vector<Row> Store::rows_of(const std::string& view, std::string_view experiment) const {
  if (experiment.empty()) return sql(select<Row>(view)).template rows<Row>();
  return sql(select<Row>(view + " where experiment = ?")).template rows<Row>(experiment);
}

template <typename Body>
std::vector<Recorded<Body>> Store::events(int64_t run_id, int attempt) const {
  const auto [table, number] = event_table<Body>;
  return sql(select<Recorded<Body>>(table + kOfAttempt + " order by rank, " + number))
      .template rows<Recorded<Body>>(run_id, attempt);
}

template std::vector<Recorded<StepDone>> Store::events(int64_t, int) const;
template std::vector<Recorded<EvaluationDone>> Store::events(int64_t, int) const;
template std::vector<Recorded<CheckpointDone>> Store::events(int64_t, int) const;
template std::vector<Recorded<DeviceSample>> Store::events(int64_t, int) const;

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
  return sql(select<RunStarted>("ranks" + kOfAttempt +
                                " and started_unix_ms is not null order by rank"))
      .rows<RunStarted>(run_id, attempt);
}

std::vector<RankEnd> Store::rank_ends(int64_t run_id, int attempt) const {
  std::vector<RankEnd> ends(
      sql("select ranks from runs where id = ?").value<size_t>(run_id).value_or(0));
  for (size_t rank = 0; rank < ends.size(); ++rank) ends[rank].rank = static_cast<int>(rank);
  for (auto& row :
       sql("select rank, end_kind, coalesce(exit_code, 0), coalesce(reason, ''), "
           "coalesce((select max(step) from steps s "
           "where s.run = k.run and s.attempt = k.attempt and s.rank = k.rank), 0), "
           "last_event_unix_ms from ranks k" +
           kOfAttempt)
           .rows<int, RankEndKind, int64_t, std::string, int64_t, std::optional<int64_t>>(
               run_id, attempt)) {
    ends.at(static_cast<size_t>(std::get<0>(row))) = std::make_from_tuple<RankEnd>(std::move(row));
  }
  return ends;
}

std::vector<Stretch> Store::stretches(int64_t run_id, int attempt) const {
  Statement& resumed_from_step = sql("select resumed_from_step from ranks" + kOfAttempt +
                                     " and started_unix_ms is not null order by rank");
  // The earlier attempt that came nearest to a step, the newest one among equals. An attempt that
  // stopped before the step did not write its checkpoint, even if it is newer.
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

RunSpec Store::spec(int64_t run_id) const {
  return run_spec_from_yaml(  // JSON is YAML
      sql("select spec from runs where id = ?").value<std::string>(run_id).value_or(""),
      {.name = "the specification of run " + std::to_string(run_id), .folder = {}});
}

std::vector<ComparisonRow> Store::comparison(std::string_view experiment, Listed listed) const {
  return rows_of<ComparisonRow>(comparison_rows(listed), experiment);
}

std::vector<RankRow> Store::comparison_per_rank(std::string_view experiment, Listed listed) const {
  return rows_of<RankRow>(comparison_per_rank_rows(listed), experiment);
}

std::vector<StatusRow> Store::statuses(std::string_view experiment) const {
  return rows_of<StatusRow>("statuses", experiment);
}

}  // namespace fsdp
