#include "runner/store/store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/text/config_error.h"
#include "base/text/json.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/store/results_unavailable.h"
#include "runner/store/run_files.h"
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

// Returns 0 if there is no such file.
uint64_t inode_of(const path& file) {
  struct stat status {};
  return stat(file.c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace

Store::Store(const path& results, StoreUse use, WarnOfFile warn)
    : results_(results),
      use_(use),
      warn_(std::move(warn)),
      database_(open_results(results, use)),
      inode_(inode_of(database_.file())) {
  if (use == StoreUse::kCreate) return;
  const bool may_write = access(results.c_str(), W_OK) == 0 &&
                         (inode_ == 0 || access(database_.file().c_str(), W_OK) == 0);
  try {
    if (!may_write && inode_ != 0) database_ = Database::copy_of(database_.file());
    sync();
  } catch (const std::exception& error) {
    warn_(std::string("shows the results as they were last recorded: ") + error.what());
  }
}

Store::Store(std::vector<ResultsPart> folders, WarnOfFile warn)
    : use_(StoreUse::kExisting),
      warn_(std::move(warn)),
      parts_(),
      database_(temporary_index()),
      inode_(0) {
  for (ResultsPart& folder : folders) {
    if (!has_run_files(folder.folder)) {
      throw ConfigError("--results", folder.folder.string(),
                        "has no files of runs; if an earlier version made these results, call "
                        "`fsdp-run report` with this folder alone once, which writes the files");
    }
    std::ranges::move(parts_of("", std::move(folder)), std::back_inserter(parts_));
  }
  sync_parts();
}

Store::~Store() {
  if (is_damaged()) set_index_aside(results_);
}

// False if another file took the place of the damaged one.
bool Store::is_damaged() const {
  return database_.is_damaged() && inode_of(database_.file()) == inode_ && has_run_files(results_);
}

bool Store::is_lost() const { return is_damaged() || inode_of(database_.file()) != inode_; }

void Store::reopen() {
  const bool is_damaged = this->is_damaged();
  if (is_damaged) {
    warn_(database_.file().string() + ": is damaged, and is made anew from the files of the runs");
  }
  statements_.clear();
  figures_.clear();
  database_ = is_damaged ? make_index_anew(results_, use_) : open_results(results_, use_);
  inode_ = inode_of(database_.file());
}

void Store::sync() {
  check_are_there(results_);
  if (!is_lost()) {
    try {
      return sync_all();
    } catch (const IndexDamaged&) {
      if (!has_run_files(results_)) throw;
    }
  }
  reopen();
  sync_all();
}

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
  Transaction nobody_plans(database_);
  require_own(experiment.name);
  write_text(results_, experiment.text_digest, experiment.text);
  RunList list{experiment};
  std::vector<RunRecord> records;
  for (const RunRecord& run : runs) {
    records.push_back(numbered(experiment.name, run));
    list.runs.push_back(records.back().folder);
    write_run(results_, records.back());
    put_run(records.back());
  }
  write_list(results_, list);
  sync_list(list_file("", list.name));
  nobody_plans.commit();
  for (RunRecord& record : records) {
    RunSpec spec = std::move(record.spec);
    record = run(record.id).value();
    record.spec = std::move(spec);
  }
  return records;
}

RunRecord Store::plan_one_more(std::string_view experiment, const RunRecord& run) {
  Transaction nobody_plans(database_);
  require_own(experiment);
  RunRecord record = numbered(experiment, run);
  write_run(results_, record);
  put_run(record);
  add_to_list(results_, experiment, record.folder, warn_);
  sync_list(list_file("", experiment));
  nobody_plans.commit();
  record = this->run(record.id).value();
  record.spec = run.spec;
  return record;
}

// Returns the run with its experiment, its number and its folder.
RunRecord Store::numbered(std::string_view experiment, const RunRecord& run) const {
  RunRecord record = run;
  record.experiment = experiment;
  record.folder = folder_for(experiment, run);
  const auto known = recorded_run(experiment, run.point, run.hash);
  record.id =
      known ? known->id : sql("select coalesce(max(id), 0) + 1 from runs").value<int64_t>().value();
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
  const auto known = recorded_run(experiment, run.point, run.hash);
  if (known && is_run_folder(known->folder) && is_free(known->folder)) return known->folder;
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

void Store::require_source(const std::string& experiment, const std::string& source) const {
  if (source.empty()) return require_own(experiment);
  const auto known =
      sql("select source from experiments where name = ?").value<std::string>(experiment);
  if (!known || *known == source) return;
  throw std::runtime_error(fmt::format("another experiment has the name '{}' here", experiment));
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

std::vector<RunOfFamily> Store::runs_of_family(std::string_view family) const {
  std::vector<RunOfFamily> runs;
  for (auto& row :
       sql("select " + kRunColumns +
           ", coalesce((select iif(status = 'out_of_memory', device_kind, '') from attempts "
           "  where run = r.id and status not in " +
           cut_short_statuses() +
           "  order by attempt desc limit 1), '') "
           "from runs r join experiments e on e.name = r.experiment and e.source = '' "
           "where r.family = ? and r.family <> '' order by r.family_value, r.id")
           .rows<RunRecord, std::string>(family)) {
    runs.push_back(std::make_from_tuple<RunOfFamily>(std::move(row)));
  }
  return runs;
}

bool Store::is_under_way(int64_t run_id) const {
  return sql("select exists (select 1 from attempts a join runs r on r.id = a.run "
             "  join experiments e on e.name = r.experiment "
             "  where a.run = ?1 and a.status = 'running' and e.source = '') "
             "or exists (select 1 from job_tasks where run = ?1 and over = 0)")
      .value<bool>(run_id)
      .value();
}

void Store::forget_removed(const RunRecord& run) {
  Transaction nobody_plans(database_);
  for (const JobRecord& of_run : jobs_of_run(run.id)) {
    JobRecord left = job(of_run.id);
    std::erase_if(left.tasks, [&](const JobTask& task) { return task.run == run.id; });
    left.tasks.empty() ? remove_job(results_, left.folder) : write_job(results_, left);
  }
  sync_run(run.folder);
  nobody_plans.commit();
}

int Store::begin_attempt(int64_t run_id, const AttemptStart& start, int wanted) {
  Transaction nobody_begins(database_);
  const int attempt =
      sql("select iif(exists (select 1 from attempts where run = ?1 and attempt = ?2), "
          "(select max(attempt) + 1 from attempts where run = ?1), ?2)")
          .value<int>(run_id, wanted)
          .value();
  const path folder = folder_of(run_id);
  make_folder(results_, folder / RunPaths(path()).attempt(attempt));
  write_record(RunPaths(results_ / folder).launch_record(attempt), start);
  sync_run(folder);
  nobody_begins.commit();
  return attempt;
}

void Store::end_attempt(int64_t run_id, int attempt, RunStatus status, std::string_view reason,
                        int64_t ended_unix_ms, int reason_rank) {
  const path folder = folder_of(run_id);
  write_verdict(RunPaths(results_ / folder), attempt,
                {.status = status,
                 .reason = std::string(reason),
                 .reason_rank = reason_rank,
                 .ended_unix_ms = ended_unix_ms});
  remove_status(RunPaths(results_ / folder));
  sync_run(folder);
}

bool Store::read_late_events(int64_t run_id, int attempt) {
  Transaction transaction(database_);
  const auto ranks = sql("select spec ->> '$.strategy.ranks' from runs where id = ?")
                         .value<int>(run_id)
                         .value_or(0);
  const bool has_news = read_events(run_id, RunPaths(results_ / folder_of(run_id)), attempt, ranks);
  transaction.commit();
  return has_news;
}

void Store::reopen_attempt(int64_t run_id, int attempt) {
  const path folder = folder_of(run_id);
  remove_verdict(RunPaths(results_ / folder), attempt);
  sync_run(folder);
}

void Store::record_status(int64_t run_id, RunStatus status, std::string_view reason) {
  const path folder = folder_of(run_id);
  const auto [begun, ended] = sql("select count(*), count(*) filter (where status <> 'running') "
                                  "from attempts where run = ?")
                                  .value<int64_t, int64_t>(run_id)
                                  .value();
  make_folder(results_, folder);
  write_status(RunPaths(results_ / folder), {.status = status,
                                             .reason = std::string(reason),
                                             .attempts_begun = begun,
                                             .attempts_ended = ended});
  settle_status(run_id, RunPaths(results_ / folder));
}

std::vector<RunningAttempt> Store::running_attempts(std::string_view experiment) const {
  std::vector<RunningAttempt> running;
  for (auto& row :
       sql("select " + kRunColumns + ", a.attempt, r.spec ->> '$.strategy.ranks', " +
           field_columns<AttemptStart>() +
           " from attempts a join runs r on r.id = a.run "
           "join experiments e on e.name = r.experiment and e.source = '' "
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
  Transaction nobody_records(database_);
  JobRecord recorded = job;
  if (job.id == 0) {
    recorded.id = sql("select coalesce(max(id), 0) + 1 from jobs").value<int64_t>().value();
  }
  write_job(results_, recorded);
  sync_job(job.folder);
  nobody_records.commit();
  return sql("select id from jobs where folder = ?").value<int64_t>(job.folder).value();
}

void Store::forget_job(int64_t job) {
  const auto folder = sql("select folder from jobs where id = ?").value<path>(job);
  if (!folder) return;
  remove_job(results_, *folder);
  sync_job(*folder);
}

void Store::set_slurm_job(int64_t job, std::string_view slurm_job) {
  JobRecord changed = this->job(job);
  changed.slurm_job = slurm_job;
  record_job(changed);
}

void Store::update_task(int64_t job, const JobTask& task) {
  JobRecord changed = this->job(job);
  const auto found = std::ranges::find(changed.tasks, task.task, &JobTask::task);
  found == changed.tasks.end() ? changed.tasks.push_back(task) : void(*found = task);
  record_job(changed);
}

JobRecord Store::job(int64_t id) const {
  const auto found = jobs("j.id = ?", id);
  if (found.empty()) throw std::runtime_error(fmt::format("no job has the number {}", id));
  return found.front();
}

RunList Store::list_of(std::string_view experiment) const {
  RunList list;
  static_cast<ExperimentRecord&>(list) =
      sql("select name, title, file, "
          "coalesce((select digest from experiment_texts t where t.text = e.text), ''), "
          "profile, compare, source from experiments e where name = ?")
          .value<ExperimentRecord>(experiment)
          .value();
  list.runs = sql("select folder from runs where experiment = ? and current = 1 "
                  "order by position, family_value, id")
                  .rows<path>(experiment);
  return list;
}

path Store::folder_of(int64_t run_id) const {
  const auto folder = sql("select folder from runs where id = ?").value<path>(run_id);
  if (folder) return *folder;
  throw std::runtime_error(fmt::format("{}: no run has the number {}", results_.string(), run_id));
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

std::vector<RunRecord> Store::runs_chosen_by(const JobRecord& job) const {
  return sql(kSelectRuns +
             "join attempts a on a.run = r.id "
             "where r.experiment = ?1 and a.slurm_job = ?2 and ?2 <> '' and not exists ("
             "  select 1 from job_tasks t join jobs j on j.id = t.job "
             "  where t.run = r.id and j.slurm_job = ?2) "
             "group by r.id order by min(a.started_unix_ms)")
      .rows<RunRecord>(job.experiment, job.slurm_job);
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
