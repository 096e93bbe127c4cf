#include "runner/commands/jobs_of_runs.h"

#include <chrono>
#include <exception>
#include <iostream>
#include <set>
#include <string>
#include <system_error>

#include "base/text/utf8.h"
#include "runner/cluster/open_jobs.h"
#include "runner/cluster/script.h"
#include "runner/cluster/slurm.h"
#include "runner/host/whole_file.h"

namespace fsdp {
namespace {

constexpr std::chrono::seconds kPauseOfWatchers{5};

// This file's modification time is when Slurm was asked last.
std::filesystem::path asked_file(const std::filesystem::path& results) {
  return results / "slurm" / "asked";
}

bool was_asked_lately(const std::filesystem::path& results) {
  std::error_code not_there;
  const auto asked = std::filesystem::last_write_time(asked_file(results), not_there);
  if (not_there) return false;
  return std::chrono::abs(std::filesystem::file_time_type::clock::now() - asked) < kPauseOfWatchers;
}

}  // namespace

void refresh_open_jobs_now_and_then(Store& store, const std::filesystem::path& results) {
  if (!was_asked_lately(results)) refresh_open_jobs(store, results);
}

void refresh_open_jobs(Store& store, const std::filesystem::path& results) {
  if (store.open_jobs("").empty()) return;
  try {
    replace_file(asked_file(results), "\n");
  } catch (const std::system_error&) {  // others ask again sooner
  }
  try {
    SlurmQueue queue;
    const std::set<std::string> not_asked = refresh_free_jobs(store, results, queue, real_pauses());
    for (const std::string& experiment : not_asked) {
      std::cerr << "fsdp-run: Slurm does not answer; of the jobs of '" << visible_line(experiment)
                << "' this tells what they wrote\n";
    }
    if (!not_asked.empty()) return;
    const std::set<std::string> others = other_clusters(store, queue.limits().cluster, "");
    if (!others.empty()) std::cerr << "fsdp-run: " << visible_line(left_alone(others)) << '\n';
  } catch (const std::exception& error) {  // a host without Slurm, somebody else's results
    std::cerr << "fsdp-run: open jobs of Slurm cannot be asked about: "
              << visible_line(error.what()) << '\n';
  }
}

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
