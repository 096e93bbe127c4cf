#include <algorithm>
#include <set>

#include "contract/spec/run_spec_yaml.h"
#include "runner/store/store_contents.h"

// What one attempt or one run left in the database, as it is there.
namespace fsdp {
namespace {

template <typename Body>
Recorded<Body> next_event(Statement& row) {
  Recorded<Body> event;
  event.rank = row.next<int>();
  event.sequence = row.next<int64_t>();
  event.time_unix_ms = row.next<int64_t>();
  event.body = row.next<Body>();
  return event;
}

template <typename Body>
std::vector<Recorded<Body>> read_events(Database& database, std::string_view table,
                                        std::string_view order, int64_t run_id, int attempt) {
  std::vector<Recorded<Body>> events;
  Statement(database, "select rank, sequence, time_unix_ms, " + field_columns<Body>() + " from " +
                          std::string(table) + " where run = ? and attempt = ? order by rank, " +
                          std::string(order))
      .query([&](Statement& row) { events.push_back(next_event<Body>(row)); }, run_id, attempt);
  return events;
}

}  // namespace

std::vector<Stretch> Store::stretches(int64_t run_id, int attempt) const {
  return contents_->stretches(run_id, attempt);
}

std::vector<Recorded<StepDone>> Store::steps(int64_t run_id, int attempt) const {
  return read_events<StepDone>(contents_->database, "steps", "step", run_id, attempt);
}

std::vector<StepDone> Store::newest_steps(int64_t run_id, int attempt, int rank, int count) const {
  std::vector<StepDone> steps;
  Statement(contents_->database, "select " + field_columns<StepDone>() +
                                     " from steps where run = ? and attempt = ? and rank = ? "
                                     "order by step desc limit ?")
      .query([&](Statement& row) { steps.push_back(row.next<StepDone>()); }, run_id, attempt, rank,
             count);
  std::ranges::reverse(steps);
  return steps;
}

std::vector<Recorded<EvaluationDone>> Store::evaluations(int64_t run_id, int attempt) const {
  return read_events<EvaluationDone>(contents_->database, "evaluations", "sequence", run_id,
                                     attempt);
}

std::vector<Recorded<CheckpointDone>> Store::checkpoints(int64_t run_id, int attempt) const {
  return read_events<CheckpointDone>(contents_->database, "checkpoints", "sequence", run_id,
                                     attempt);
}

std::vector<Recorded<DeviceSample>> Store::device_samples(int64_t run_id, int attempt) const {
  return read_events<DeviceSample>(contents_->database, "device_samples", "sequence", run_id,
                                   attempt);
}

std::vector<Recorded<DeviceSample>> Store::newest_device_samples(int64_t run_id,
                                                                 int attempt) const {
  constexpr int kMostDevices = 64;  // that a rank samples at a time
  std::set<std::pair<std::string, std::string>> seen;
  std::vector<Recorded<DeviceSample>> samples;
  Statement of_rank(contents_->database,
                    "select rank, sequence, time_unix_ms, " + field_columns<DeviceSample>() +
                        " from device_samples where run = ? and attempt = ? and rank = ? "
                        "order by sequence desc limit ?");
  for (const RankEnd& rank : rank_ends(run_id, attempt)) {
    of_rank.query(
        [&](Statement& row) {
          auto sample = next_event<DeviceSample>(row);
          const bool is_new = seen.emplace(sample.body.host, sample.body.device).second;
          if (is_new) samples.push_back(std::move(sample));
        },
        run_id, attempt, rank.rank, kMostDevices);
  }
  return samples;
}

std::vector<RunStarted> Store::rank_facts(int64_t run_id, int attempt) const {
  std::vector<RunStarted> facts;
  Statement(contents_->database, "select " + field_columns<RunStarted>() +
                                     " from ranks where run = ? and attempt = ? "
                                     "and started_unix_ms is not null order by rank")
      .query([&](Statement& row) { facts.push_back(row.next<RunStarted>()); }, run_id, attempt);
  return facts;
}

std::vector<AttemptRecord> Store::attempts(int64_t run_id) const {
  std::vector<AttemptRecord> attempts;
  Statement(contents_->database, "select " + field_columns<AttemptRecord>() +
                                     " from attempts where run = ? order by attempt")
      .query([&](Statement& row) { attempts.push_back(row.next<AttemptRecord>()); }, run_id);
  return attempts;
}

Provenance Store::provenance(int64_t run_id, int attempt) const {
  return Statement(contents_->database, "select " + field_columns<Provenance>() +
                                            " from attempts where run = ? and attempt = ?")
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
  return run_spec_from_yaml(  // which JSON is
      Statement(contents_->database, "select spec from runs where id = ?")
          .value<std::string>(run_id)
          .value_or(""),
      {.name = "the specification of run " + std::to_string(run_id), .folder = {}});
}

std::vector<StatusRow> Store::statuses(std::string_view experiment) const {
  return contents_->read_view<StatusRow>("statuses", experiment);
}

}  // namespace fsdp
