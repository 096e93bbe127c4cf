#include "runner/store/store_contents.h"

namespace fsdp {

std::optional<RunRecord> Store::run(int64_t run_id) const {
  return Statement(contents_->database, kSelectRuns + "where id = ?").value<RunRecord>(run_id);
}

std::vector<RunRecord> Store::runs() const {
  return Statement(contents_->database, kSelectRuns + "order by experiment, position, id")
      .rows<RunRecord>();
}

std::optional<RunRecord> Store::recorded_run(std::string_view experiment, std::string_view point,
                                             std::string_view hash) const {
  return Statement(contents_->database, kSelectRuns + "where (experiment, point, hash) = (?, ?, ?)")
      .value<RunRecord>(experiment, point, hash);
}

std::vector<std::tuple<RunRecord, std::filesystem::path>> Store::resumed_checkpoints() const {
  return Statement(contents_->database, "select " + kRunColumns +
                                            ", r.spec ->> '$.resume' from runs r "
                                            "where r.spec ->> '$.resume' not in ('', 'auto')")
      .rows<RunRecord, std::filesystem::path>();
}

int64_t Store::version() const {
  return Statement(contents_->database, "pragma data_version").value<int64_t>().value();
}

std::vector<int64_t> Store::values_with_result(std::string_view experiment,
                                               std::string_view family) const {
  Statement values(contents_->database,
                   "select distinct family_value from runs where experiment = ? and family = ? "
                   "and family <> '' and status in ('finished', 'out_of_memory') "
                   "order by family_value");
  return values.rows<int64_t>(experiment, family);
}

std::vector<KnownOutOfMemory> Store::known_out_of_memory(std::string_view family) const {
  Statement newest_of_runs(
      contents_->database,
      fmt::format("select r.id, a.attempt, r.experiment, r.point, r.family_value, a.device_kind "
                  "from runs r "
                  "join experiments e on e.name = r.experiment and e.source = '' "
                  "join attempts a on a.run = r.id and a.attempt = "
                  "  (select max(attempt) from attempts where run = r.id and status not in {}) "
                  "where r.family = ? and r.family <> '' and a.status = 'out_of_memory' "
                  "order by r.family_value, a.started_unix_ms",
                  cut_short_statuses()));
  std::vector<KnownOutOfMemory> known;
  for (auto& row :
       newest_of_runs.rows<int64_t, int, std::string, std::string, int64_t, std::string>(family)) {
    known.push_back(std::make_from_tuple<KnownOutOfMemory>(std::move(row)));
  }
  return known;
}

bool Store::is_under_way(int64_t run_id) const {
  return Statement(contents_->database,
                   "select exists (select 1 from attempts a join runs r on r.id = a.run "
                   "  join experiments e on e.name = r.experiment "
                   "  where a.run = ?1 and a.status = 'running' and e.source = '') "
                   "or exists (select 1 from job_tasks where run = ?1 and over = 0)")
      .value<bool>(run_id)
      .value();
}

bool Store::delete_run(int64_t run_id) {
  Database& database = contents_->database;
  Transaction transaction(database);
  if (is_under_way(run_id)) return false;
  database.execute("pragma defer_foreign_keys = on");
  for (const std::string& table : tables_of_runs(database)) {
    Statement(database, "delete from " + table + " where run = ?").run(run_id);
  }
  Statement(database, "delete from runs where id = ?").run(run_id);
  database.execute(
      "delete from jobs where id not in (select job from job_tasks);"
      "delete from experiments where name not in (select experiment from runs);"
      "delete from experiment_texts where digest not in "
      "  (select experiment_text_digest from attempts union select experiment_text_digest from "
      "jobs)");
  transaction.commit();
  return true;
}

void Store::delete_checkpoint(int64_t run_id, const std::filesystem::path& path) {
  Statement(contents_->database, "delete from checkpoints where run = ? and path = ?")
      .run(run_id, path);
}

}  // namespace fsdp
