#include "runner/commands/job_text.h"

#include "runner/slurm/job_output.h"

namespace fsdp {

std::optional<JobRecord> newest_job(const Store& store, const RunRecord& run) {
  std::vector<JobRecord> jobs = store.jobs_of_run(run.id);
  if (jobs.empty()) return std::nullopt;
  return std::move(jobs.back());
}

bool has_open_job(const Store& store, const RunRecord& run) {
  const std::optional<JobRecord> job = newest_job(store, run);
  return job && !job->tasks.front().over;
}

std::string job_text(const JobRecord& job) {
  const JobTask& task = job.tasks.front();
  if (job.slurm_job.empty()) return "a job about which sbatch has not answered";
  std::string text = "job " + slurm_name(job, task.task);
  if (task.over) return text + ", which is over";
  if (!task.node_list.empty()) return text + " on " + task.node_list;
  if (task.state.empty()) return text;
  text += ", " + task.state;
  return task.reason.empty() ? text : text + " (" + task.reason + ')';
}

std::filesystem::path job_output(const JobRecord& job, const std::filesystem::path& results) {
  return job_output(results / job.folder, slurm_name(job, job.tasks.front().task));
}

}  // namespace fsdp
