#include "runner/store/store_contents.h"

namespace fsdp {
namespace {

// Returns jobs with the tasks that match `is_wanted`, on the tables `job_tasks t` and `jobs j`.
template <typename Value>
std::vector<JobRecord> read_jobs(Database& database, const std::string& is_wanted,
                                 const Value& value) {
  Statement select(database,
                   fmt::format("select {}, {} from job_tasks t join jobs j on j.id = t.job "
                               "where {} order by j.id, t.task",
                               field_columns<JobRecord>(), field_columns<JobTask>(), is_wanted));
  std::vector<JobRecord> jobs;
  for (auto& [job, task] : select.rows<JobRecord, JobTask>(value)) {
    if (jobs.empty() || jobs.back().id != job.id) jobs.push_back(std::move(job));
    jobs.back().tasks.push_back(std::move(task));
  }
  return jobs;
}

}  // namespace

std::string slurm_name(const JobRecord& job, int64_t task) {
  if (job.slurm_job.empty() || job.mode != "per_run") return job.slurm_job;
  return job.slurm_job + '_' + std::to_string(task);
}

int64_t Store::record_job(const JobRecord& job) {
  Database& database = contents_->database;
  Transaction transaction(database);
  JobRecord recorded = job;
  recorded.id =
      Statement(database, "select coalesce(max(id), 0) + 1 from jobs").value<int64_t>().value();
  Statement(database, "insert into jobs " + values_of(field_columns<JobRecord>())).run(recorded);
  for (const JobTask& task : job.tasks) update_task(recorded.id, task);
  transaction.commit();
  return recorded.id;
}

void Store::forget_job(int64_t job) {
  Transaction transaction(contents_->database);
  Statement(contents_->database, "delete from job_tasks where job = ?").run(job);
  Statement(contents_->database, "delete from jobs where id = ?").run(job);
  transaction.commit();
}

void Store::set_slurm_job(int64_t job, std::string_view slurm_job) {
  Statement(contents_->database, "update jobs set slurm_job = ? where id = ?").run(slurm_job, job);
}

void Store::update_task(int64_t job, const JobTask& task) {
  Statement(contents_->database,
            "insert or replace into job_tasks " + values_of("job, " + field_columns<JobTask>()))
      .run(job, task);
}

std::vector<JobRecord> Store::open_jobs(std::string_view experiment) const {
  return read_jobs(contents_->database,
                   "(j.experiment = ?1 or ?1 = '') and j.id in (select job from job_tasks "
                   "where over = 0)",
                   experiment);
}

std::optional<int64_t> Store::allocation_that_comes_to(int64_t run_id) const {
  return Statement(contents_->database,
                   "select id from jobs where mode = 'allocation' and id = ("
                   "  select max(t.job) from runs run join runs r "
                   "  on r.experiment = run.experiment and r.family = run.family "
                   "  join job_tasks t on t.run = r.id where run.id = ?1 and run.family <> '') "
                   "and exists (select 1 from job_tasks where job = jobs.id and over = 0) "
                   "and not exists (select 1 from job_tasks where job = jobs.id and run = ?1)")
      .value<int64_t>(run_id);
}

std::vector<JobRecord> Store::jobs_of_run(int64_t run_id) const {
  return read_jobs(contents_->database, "t.run = ?", run_id);
}

}  // namespace fsdp
