#include "runner/store/store.h"

#include "base/text/config_error.h"
#include "base/text/json.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/store/run_folders.h"
#include "runner/store/schema.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// RunRecord's fields, in the table `runs r`.
const std::string kRunColumns =
    "r.id, r.experiment, r.point, r.hash, r.folder, r.status, r.reason, "
    "coalesce((select max(attempt) from attempts where run = r.id), 0), "
    "(select source from experiments where name = r.experiment), r.current, r.data_digest, "
    "r.repeat, r.position, r.family, r.family_key, r.family_value, r.series, r.loss_digest";
const std::string kSelectRuns = "select " + kRunColumns + " from runs r ";
const std::string kIsRun = "where (experiment, point, hash) = (?, ?, ?)";

}  // namespace

Statement& Store::sql(const std::string& text) const {
  const auto found = statements_.find(text);
  if (found != statements_.end()) return found->second;
  return statements_.emplace(text, Statement(database_, text)).first->second;
}

void Store::check_is_writable() {
  Transaction transaction(database_);
  const int version = sql("pragma user_version").value<int>().value();
  database_.execute("pragma user_version = " + std::to_string(version));
  transaction.commit();
}

std::vector<RunRecord> Store::plan(const ExperimentRecord& experiment,
                                   std::span<const RunRecord> runs) {
  Transaction transaction(database_);
  require_own(experiment.name);
  sql("insert into experiments (name, title, file, text, profile, compare) "
      "values (?, ?, ?, ?, ?, ?) "
      "on conflict (name) do update set title = excluded.title, file = excluded.file, "
      "text = excluded.text, profile = excluded.profile, compare = excluded.compare")
      .run(experiment.name, experiment.title, experiment.file, experiment.text, experiment.profile,
           experiment.compare);
  if (!experiment.text_digest.empty()) {
    sql("insert or ignore into experiment_texts (digest, text) values (?, ?)")
        .run(experiment.text_digest, experiment.text);
  }
  sql("update runs set current = 0 where experiment = ?").run(experiment.name);
  std::vector<RunRecord> records;
  records.reserve(runs.size());
  for (const RunRecord& run : runs) records.push_back(plan_run(experiment.name, run));
  transaction.commit();
  return records;
}

RunRecord Store::plan_one_more(std::string_view experiment, const RunRecord& run) {
  Transaction transaction(database_);
  require_own(experiment);
  RunRecord record = plan_run(experiment, run);
  transaction.commit();
  return record;
}

RunRecord Store::plan_run(std::string_view experiment, const RunRecord& run) {
  std::string spec;
  append_json(spec, run.spec);
  sql("insert into runs (experiment, point, hash, folder, position, current, status, reason,"
      "  series, repeat, data_digest, loss_digest, family, family_key, family_value, spec) "
      "values (?, ?, ?, ?, ?, 1, 'planned', '', ?, ?, ?, ?, ?, ?, ?, ?) "
      "on conflict (experiment, point, hash) "
      "do update set position = excluded.position, current = 1, folder = excluded.folder,"
      "  series = excluded.series, repeat = excluded.repeat, data_digest = excluded.data_digest,"
      "  loss_digest = excluded.loss_digest, family = excluded.family,"
      "  family_key = excluded.family_key, family_value = excluded.family_value,"
      "  spec = excluded.spec")
      .run(experiment, run.point, run.hash, folder_for(experiment, run), run.position, run.series,
           run.repeat, run.data_digest, run.loss_digest, run.family, run.family_key,
           run.family_value, spec);
  RunRecord record = recorded_run(experiment, run.point, run.hash).value();
  record.spec = run.spec;
  return record;
}

// Returns the recorded folder, else the one that the run wants, with a number if necessary. No
// other run of these results has it.
path Store::folder_for(std::string_view experiment, const RunRecord& run) const {
  const auto is_free = [&](const path& folder) {
    return !sql("select 1 from runs r join experiments e on e.name = r.experiment "
                "where r.folder = ? and e.source = '' "
                "and (r.experiment, r.point, r.hash) <> (?, ?, ?)")
                .value<int>(folder, experiment, run.point, run.hash);
  };
  const auto recorded =
      sql("select folder from runs " + kIsRun).value<path>(experiment, run.point, run.hash);
  if (recorded && is_run_folder(*recorded) && is_free(*recorded)) return *recorded;
  path folder = run.folder;
  for (int number = 2; !is_free(folder); ++number) {
    folder = run.folder.string() + '~' + std::to_string(number);
  }
  return folder;
}

void Store::require_own(std::string_view experiment) const {
  const auto source =
      sql("select source from experiments where name = ?").value<std::string>(experiment);
  if (!source || source->empty()) return;
  throw ConfigError(database_.file().string(), "",
                    "the runs of '" + std::string(experiment) + "' were merged from '" + *source +
                        "', whose files are not written to; rename `experiment:`, or choose "
                        "another folder with --results");
}

std::optional<path> Store::experiment_file(std::string_view experiment) const {
  return sql("select file from experiments where name = ?").value<path>(experiment);
}

std::vector<ExperimentRecord> Store::experiments() const {
  std::vector<ExperimentRecord> experiments;
  sql("select name, title, file, profile, compare, source from experiments order by name")
      .query([&](Statement& row) {
        ExperimentRecord& experiment = experiments.emplace_back();
        experiment.name = row.next<std::string>();
        experiment.title = row.next<std::string>();
        experiment.file = row.next<path>();
        experiment.profile = row.next<std::string>();
        experiment.compare = row.next<std::string>();
        experiment.source = row.next<std::string>();
      });
  return experiments;
}

std::optional<RunRecord> Store::run(int64_t run_id) const {
  return sql(kSelectRuns + "where id = ?").value<RunRecord>(run_id);
}

std::vector<RunRecord> Store::runs() const {
  return sql(kSelectRuns + "order by experiment, position, id").rows<RunRecord>();
}

std::optional<RunRecord> Store::recorded_run(std::string_view experiment, std::string_view point,
                                             std::string_view hash) const {
  return sql(kSelectRuns + kIsRun).value<RunRecord>(experiment, point, hash);
}

std::vector<InputOfRun> Store::inputs_of_runs() const {
  std::vector<InputOfRun> inputs;
  for (const RunSpecKey& key : run_spec_keys()) {
    if (!key.is_path) continue;
    const std::string value = "r.spec ->> '$." + key.name + "'";
    for (auto& [run, place] : sql("select " + kRunColumns + ", " + value + " from runs r where " +
                                  value + " not in ('', 'auto', 'never')")
                                  .rows<RunRecord, path>()) {
      inputs.push_back({std::move(run), key.name, std::move(place)});
    }
  }
  return inputs;
}

int64_t Store::version() const { return sql("pragma data_version").value<int64_t>().value(); }

std::vector<int64_t> Store::values_with_result(std::string_view experiment,
                                               std::string_view family) const {
  return sql("select distinct family_value from runs where experiment = ? and family = ? "
             "and family <> '' and status in ('finished', 'out_of_memory') "
             "order by family_value")
      .rows<int64_t>(experiment, family);
}

std::vector<KnownOutOfMemory> Store::known_out_of_memory(std::string_view family) const {
  std::vector<KnownOutOfMemory> known;
  for (auto& row :
       sql("select r.id, a.attempt, r.experiment, r.point, r.family_value, "
           "  a.device_kind from runs r "
           "join experiments e on e.name = r.experiment and e.source = '' "
           "join attempts a on a.run = r.id and a.attempt = "
           "  (select max(attempt) from attempts where run = r.id and status not in " +
           cut_short_statuses() +
           ") where r.family = ? and r.family <> '' and a.status = 'out_of_memory' "
           "order by r.family_value, a.started_unix_ms")
           .rows<int64_t, int, std::string, std::string, int64_t, std::string>(family)) {
    known.push_back(std::make_from_tuple<KnownOutOfMemory>(std::move(row)));
  }
  return known;
}

bool Store::is_under_way(int64_t run_id) const {
  return sql("select exists (select 1 from attempts a join runs r on r.id = a.run "
             "  join experiments e on e.name = r.experiment "
             "  where a.run = ?1 and a.status = 'running' and e.source = '') "
             "or exists (select 1 from job_tasks where run = ?1 and over = 0)")
      .value<bool>(run_id)
      .value();
}

bool Store::delete_run(int64_t run_id) {
  Transaction transaction(database_);
  if (is_under_way(run_id)) return false;
  database_.execute("pragma defer_foreign_keys = on");
  for (const std::string& table : tables_of_runs(database_)) {
    sql("delete from " + table + " where run = ?").run(run_id);
  }
  sql("delete from runs where id = ?").run(run_id);
  // The attempts of an open job will name the text that was submitted.
  database_.execute(
      "delete from jobs where id not in (select job from job_tasks);"
      "delete from experiments where name not in (select experiment from runs);"
      "delete from experiment_texts where digest not in "
      "  (select experiment_text_digest from attempts) "
      "  and not exists (select 1 from job_tasks where over = 0)");
  transaction.commit();
  return true;
}

void Store::delete_checkpoint(int64_t run_id, const path& place) {
  sql("delete from checkpoints where run = ? and path = ?").run(run_id, place);
}

int Store::begin_attempt(int64_t run_id, const AttemptStart& start, int wanted) {
  Transaction transaction(database_);
  const int attempt =
      sql("select iif(exists (select 1 from attempts where run = ?1 and attempt = ?2), "
          "(select max(attempt) + 1 from attempts where run = ?1), ?2)")
          .value<int>(run_id, wanted)
          .value();
  sql("insert into attempts " +
      values_of("run, attempt, status, reason, " + field_columns<AttemptStart>()))
      .run(run_id, attempt, RunStatus::kRunning, "", start);
  record_status(run_id, RunStatus::kRunning, "");
  transaction.commit();
  return attempt;
}

void Store::end_attempt(int64_t run_id, int attempt, RunStatus status, std::string_view reason,
                        int64_t ended_unix_ms, int reason_rank) {
  Transaction transaction(database_);
  sql("update attempts set status = ?, reason = ?, reason_rank = nullif(?, -1), "
      "ended_unix_ms = max(?, started_unix_ms) where run = ? and attempt = ?")
      .run(status, reason, reason_rank, ended_unix_ms, run_id, attempt);
  sql("update runs set (status, reason) = (select status, reason from attempts "
      "  where run = runs.id order by status in " +
      cut_short_statuses() + ", attempt desc limit 1) where id = ?")
      .run(run_id);
  // The first losses of later attempts are the run's.
  const auto ended = sql("select attempt from attempts where run = ?1 and attempt = ?2 or "
                         "run = ?1 and attempt > ?2 and ended_unix_ms is not null")
                         .rows<int>(run_id, attempt);
  for (const int each : ended) {
    write_figures(run_id, each, figures_of(run_id, each), /*has_ended=*/true);
  }
  transaction.commit();
  for (const int each : ended) figures_.erase({run_id, each});
}

void Store::reopen_attempt(int64_t run_id, int attempt) {
  Transaction transaction(database_);
  sql("update attempts set status = ?, reason = '', reason_rank = null, ended_unix_ms = null" +
      kOfAttempt)
      .run(RunStatus::kRunning, run_id, attempt);
  record_status(run_id, RunStatus::kRunning, "");
  transaction.commit();
}

void Store::record_status(int64_t run_id, RunStatus status, std::string_view reason) {
  Transaction transaction(database_);
  sql("update runs set status = ?, reason = ? where id = ?").run(status, reason, run_id);
  if (is_cut_short(status) || status == RunStatus::kFailed) {
    const std::string of_results =
        "from attempts where run = runs.id and status in ('finished', 'out_of_memory')";
    sql("update runs set (status, reason) = (select status, reason " + of_results +
        " order by attempt desc limit 1) where id = ? and exists (select 1 " + of_results + ")")
        .run(run_id);
  }
  transaction.commit();
}

std::vector<RunningAttempt> Store::running_attempts(std::string_view experiment) const {
  std::vector<RunningAttempt> running;
  for (auto& row :
       sql("select " + kRunColumns + ", a.attempt, r.ranks, " + field_columns<AttemptStart>() +
           " from attempts a join runs r on r.id = a.run "
           "where a.status = 'running' and r.experiment = ? and not exists ("
           "  select 1 from job_tasks t join jobs j on j.id = t.job where t.run = a.run "
           "  and t.over = 0 and a.slurm_job <> '' "
           "  and (j.slurm_job = '' or a.slurm_job in (j.slurm_job, j.slurm_job || '_' || t.task)))"
           " order by r.position, a.attempt")
           .rows<RunRecord, int, int, AttemptStart>(experiment)) {
    running.push_back(std::make_from_tuple<RunningAttempt>(std::move(row)));
  }
  return running;
}

int64_t Store::record_job(const JobRecord& job) {
  Transaction transaction(database_);
  JobRecord recorded = job;
  recorded.id = sql("select coalesce(max(id), 0) + 1 from jobs").value<int64_t>().value();
  sql("insert into jobs " + values_of(field_columns<JobRecord>())).run(recorded);
  for (const JobTask& task : job.tasks) update_task(recorded.id, task);
  transaction.commit();
  return recorded.id;
}

void Store::forget_job(int64_t job) {
  Transaction transaction(database_);
  sql("delete from job_tasks where job = ?").run(job);
  sql("delete from jobs where id = ?").run(job);
  transaction.commit();
}

void Store::set_slurm_job(int64_t job, std::string_view slurm_job) {
  sql("update jobs set slurm_job = ? where id = ?").run(slurm_job, job);
}

void Store::update_task(int64_t job, const JobTask& task) {
  sql("insert or replace into job_tasks " + values_of("job, " + field_columns<JobTask>()))
      .run(job, task);
}

// Returns jobs with their tasks for which `condition` holds, on the tables `job_tasks t` and
// `jobs j`.
std::vector<JobRecord> Store::jobs(const std::string& condition, auto value) const {
  std::vector<JobRecord> jobs;
  for (auto& [job, task] :
       sql("select " + field_columns<JobRecord>() + ", " + field_columns<JobTask>() +
           " from job_tasks t join jobs j on j.id = t.job where " + condition +
           " order by j.id, t.task")
           .rows<JobRecord, JobTask>(value)) {
    if (jobs.empty() || jobs.back().id != job.id) jobs.push_back(std::move(job));
    jobs.back().tasks.push_back(std::move(task));
  }
  return jobs;
}

std::vector<JobRecord> Store::open_jobs(std::string_view experiment) const {
  return jobs(
      "(j.experiment = ?1 or ?1 = '') and j.id in (select job from job_tasks where over = 0)",
      experiment);
}

std::vector<JobRecord> Store::jobs_of_run(int64_t run_id) const {
  return jobs("t.run = ?", run_id);
}

std::optional<int64_t> Store::allocation_that_comes_to(int64_t run_id) const {
  return sql("select id from jobs where mode = 'allocation' and id = ("
             "  select max(t.job) from runs run join runs r "
             "  on r.experiment = run.experiment and r.family = run.family "
             "  join job_tasks t on t.run = r.id where run.id = ?1 and run.family <> '') "
             "and exists (select 1 from job_tasks where job = jobs.id and over = 0) "
             "and not exists (select 1 from job_tasks where job = jobs.id and run = ?1)")
      .value<int64_t>(run_id);
}

std::optional<std::string> Store::digest(const FileState& file) const {
  return sql("select digest from file_digests where " +
             field_columns<FileState>(" = ?", "", " and "))
      .value<std::string>(file);
}

std::vector<std::string> Store::digests_of_path(std::string_view path) const {
  return sql("select digest from file_digests where path = ?").rows<std::string>(path);
}

void Store::remember_digest(const FileState& file, std::string_view digest) {
  sql("insert or replace into file_digests " + values_of(field_columns<FileState>() + ", digest"))
      .run(file, digest);
}

}  // namespace fsdp
