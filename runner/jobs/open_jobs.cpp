#include "runner/jobs/open_jobs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "contract/record/run_paths.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/attempt/attempt_files.h"

namespace fsdp {
namespace {

std::map<int64_t, RunRecord> runs_by_id(const Store& store) {
  std::map<int64_t, RunRecord> runs;
  for (RunRecord& run : store.runs()) runs.emplace(run.id, std::move(run));
  return runs;
}

// The controller forgets ended jobs, but their attempts name them. A run is in one job at a time,
// so later attempts are this job's.
std::optional<std::string> named_by_attempt(const RunListeners& listeners, const JobRecord& job,
                                            const std::map<int64_t, RunRecord>& runs) {
  for (const JobTask& task : job.tasks) {
    const auto run = runs.find(task.run);
    if (run == runs.end()) continue;
    const RunPaths paths(listeners.results / run->second.folder);
    const int next = run->second.attempt + 1;
    for (int attempt = next; attempt < first_free_attempt(paths); ++attempt) {
      const std::optional<LaunchRecord> start =
          read_launch_record(paths, attempt, [](const std::string&) {});
      if (start && start->started_unix_ms >= job.submitted_unix_ms) {
        return start->job.substr(0, start->job.find('_'));
      }
    }
  }
  return std::nullopt;
}

}  // namespace

bool is_of_cluster(const JobRecord& job, std::string_view here) {
  return job.cluster.empty() || job.cluster == here;
}

std::set<std::string> other_clusters(const Store& store, std::string_view here,
                                     std::string_view experiment) {
  std::set<std::string> clusters;
  for (const JobRecord& job : store.open_jobs(experiment)) {
    if (!is_of_cluster(job, here)) clusters.insert(job.cluster);
  }
  return clusters;
}

std::string left_alone(const std::set<std::string>& clusters) {
  return fmt::format(
      "jobs on another cluster ({}) are left alone: call fsdp-run on a login node of that cluster",
      fmt::join(clusters, ", "));
}

void confirm_submissions(const RunListeners& listeners, Queue& queue, std::string_view experiment) {
  std::optional<std::map<int64_t, RunRecord>> runs;
  for (const JobRecord& job : listeners.store.open_jobs(experiment)) {
    if (!job.slurm_job.empty() || !is_of_cluster(job, queue.limits().cluster)) continue;
    if (!runs) runs = runs_by_id(listeners.store);
    std::optional<std::string> found = queue.find_submission(job.token);
    if (!found) found = named_by_attempt(listeners, job, *runs);
    if (found) {
      Store::Batch batch(listeners.store);
      listeners.store.set_slurm_job(job.id, *found);
      for (const JobTask& task : job.tasks) {
        listeners.store.record_status(task.run, RunStatus::kQueued, "");
      }
      batch.commit();
    } else {
      listeners.store.forget_job(job.id);
    }
  }
}

void follow_open_jobs(JobFollower& follower, const RunListeners& listeners,
                      const std::optional<std::string>& here, std::string_view experiment,
                      std::optional<int64_t> left_out) {
  const std::vector<JobRecord> jobs = listeners.store.open_jobs(experiment);
  if (jobs.empty()) return;
  const std::map<int64_t, RunRecord> records = runs_by_id(listeners.store);
  for (const JobRecord& job : jobs) {
    if (job.id == left_out) continue;
    std::vector<RunRecord> runs;
    for (const JobTask& task : job.tasks) {
      if (task.over) continue;
      RunRecord& run = runs.emplace_back(records.at(task.run));
      run.spec = read_run_spec(RunPaths(listeners.results / run.folder).spec());
    }
    follower.follow(job, runs, here && is_of_cluster(job, *here));
  }
}

std::set<int64_t> runs_in_jobs(const Store& store) {
  std::set<int64_t> runs;
  for (const JobRecord& job : store.open_jobs("")) {
    for (const JobTask& task : job.tasks) {
      if (!task.over) runs.insert(task.run);
    }
  }
  return runs;
}

}  // namespace fsdp
