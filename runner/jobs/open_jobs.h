#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "runner/attempt/attempt.h"
#include "runner/jobs/job_follower.h"
#include "runner/launch/queue.h"

// Functions for jobs that an earlier runner submitted and did not follow to their end.
namespace fsdp {

// True if the cluster named `here` can be asked about the job. On another cluster its id is unknown
// or belongs to another job.
bool is_of_cluster(const JobRecord& job, std::string_view here);
// The other clusters with open jobs of the experiment (empty: of all experiments).
std::set<std::string> other_clusters(const Store& store, std::string_view here,
                                     std::string_view experiment);
// The message about jobs of other clusters.
std::string left_alone(const std::set<std::string>& clusters);

// Settles jobs whose runner ended before sbatch answered. Submitted jobs get their id, and others
// are forgotten. Jobs of other clusters stay unchanged. Throws QueueUnavailable.
void confirm_submissions(const RunListeners& listeners, Queue& queue, std::string_view experiment);

// Follows every open job of the experiment. Jobs of clusters other than `here` are followed only by
// their files. `here` is absent if its name is unknown. `left_out` is a job being submitted.
void follow_open_jobs(JobFollower& follower, const RunListeners& listeners,
                      const std::optional<std::string>& here, std::string_view experiment,
                      std::optional<int64_t> left_out = std::nullopt);

// Runs of all experiments that wait or run in a job, or whose end there is not known yet.
std::set<int64_t> runs_in_jobs(const Store& store);

}  // namespace fsdp
