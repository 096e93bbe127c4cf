#include "runner/jobs/jobs_to_cancel.h"

#include <fmt/format.h>

#include <map>

#include "contract/text/config_error.h"
#include "runner/jobs/open_jobs.h"

namespace fsdp {

JobsToCancel jobs_to_cancel(const Store& store, const std::set<int64_t>& runs,
                            std::string_view here) {
  std::map<int64_t, RunRecord> records;
  for (RunRecord& run : store.runs()) records.emplace(run.id, std::move(run));
  JobsToCancel found;
  for (const JobRecord& job : store.open_jobs("")) {
    if (job.slurm_job.empty()) continue;
    size_t open = 0;
    std::vector<JobsToCancel::Task> tasks;
    for (const JobTask& task : job.tasks) {
      const RunRecord& run = records.at(task.run);
      // In an allocation, the task of an ended run stays open until the job is over.
      if (task.over || !is_under_way(run.status)) continue;
      ++open;
      if (runs.contains(task.run)) tasks.push_back({slurm_name(job, task.task), run});
    }
    if (tasks.empty()) continue;
    if (!is_of_cluster(job, here)) {
      found.other_clusters.insert(job.cluster);
      continue;
    }
    const bool whole = tasks.size() == open;
    if (!whole && job.mode == "allocation") {
      throw ConfigError("cancel", "",
                        fmt::format("'{0}' is in job {1} with other runs of '{2}', which would end "
                                    "too; to end them all: fsdp-run cancel {2}",
                                    tasks.front().run.point, job.slurm_job, job.experiment));
    }
    if (whole) found.names.push_back(job.slurm_job);
    for (JobsToCancel::Task& task : tasks) {
      if (!whole) found.names.push_back(task.name);
      found.tasks.push_back(std::move(task));
    }
  }
  return found;
}

}  // namespace fsdp
