#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runner/cluster/job_follower.h"
#include "runner/cluster/job_loop.h"
#include "runner/cluster/queue.h"
#include "runner/run/attempt.h"
#include "runner/store/store.h"

namespace fsdp {

// Functions for jobs that an earlier runner submitted and did not follow to their end.

// True if the cluster named `here` can be asked about the job. On another cluster its id is unknown
// or belongs to another job.
bool is_of_cluster(const JobRecord& job, std::string_view here);
// The clusters other than `here` with open jobs of the experiment (empty: of all experiments).
std::set<std::string> other_clusters(const Store& store, std::string_view here,
                                     std::string_view experiment);
// The message about jobs of other clusters.
std::string left_alone(const std::set<std::string>& clusters);

// Settles jobs whose runner ended before sbatch answered. Submitted jobs get their id. Others are
// withdrawn and forgotten. Submissions of other users are withdrawn only if the caller is about to
// submit their runs. Jobs of other clusters stay unchanged. Throws QueueUnavailable, and
// std::runtime_error if this user may not withdraw another user's submission.
void confirm_submissions(const RunListeners& listeners, Queue& queue, std::string_view experiment,
                         bool is_to_submit);

// Reopens ended tasks that go on: Slurm started them again, as an administrator can ask it to, or
// the ranks of a run with the status unknown have written more events.
void reopen_tasks(Store& store, std::string_view experiment);

// Follows every open job of the experiment. Jobs of clusters other than `here` are followed only by
// their files. `here` is nullopt if the cluster is unknown. `left_out` is a job being submitted.
void follow_open_jobs(JobFollower& follower, const RunListeners& listeners,
                      const std::optional<std::string>& here, std::string_view experiment,
                      std::optional<int64_t> left_out = std::nullopt);

// The experiments of this folder with open jobs, or with runs of status unknown that may still run.
std::set<std::string> experiments_in_jobs(const Store& store);

// Runs of all experiments that wait or run in a job, or whose end there is not known yet.
std::set<int64_t> runs_in_jobs(const Store& store);

// The families of these runs in the experiment. Their jobs may choose other runs of the families.
std::set<std::string> families_in_jobs(const Store& store, std::string_view experiment);

// Brings open jobs up to date once, without submitting anything.

// The caller holds the experiment's lock. Reads the jobs' files even if Slurm does not answer, or
// is not asked (`queue` is null). Returns false if Slurm did not answer.
bool refresh_jobs(const RunListeners& listeners, Queue* queue, std::string_view experiment,
                  const Pauses& pauses);

// Refreshes the open jobs of `experiments`, except experiments that another runner works on.
// Returns the experiments for which Slurm did not answer.
std::set<std::string> refresh_free_jobs(Store& store, const std::filesystem::path& results,
                                        const std::set<std::string>& experiments, Queue* queue,
                                        const Pauses& pauses);

// The names for scancel, and the tasks that it ends.
struct JobsToCancel {
  struct Task {
    std::string name;  // as Slurm knows it
    RunRecord run;
  };
  std::vector<std::string> names{};  // a job if all its open runs end, otherwise tasks
  std::vector<Task> tasks{};         // the waiting or running tasks that end
  // Clusters other than `here` with jobs of the runs. These jobs can only be cancelled there.
  std::set<std::string> other_clusters{};
};

// Finds the runs of `runs` that wait or run in jobs of the cluster `here`. Throws ConfigError if an
// allocation also holds other runs, because cancelling it would end them too.
JobsToCancel jobs_to_cancel(const Store& store, const std::set<int64_t>& runs,
                            std::string_view here);

}  // namespace fsdp
