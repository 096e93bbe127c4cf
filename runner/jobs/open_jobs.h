#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "runner/attempt/open_attempt.h"
#include "runner/jobs/job_follower.h"
#include "runner/launch/queue.h"

// Jobs that an earlier runner submitted and did not see to their end.
namespace fsdp {

// Whether the job is asked about where `here` is the cluster's name: elsewhere its id is unknown,
// or another job's.
bool is_of_cluster(const JobRecord& job, std::string_view here);
// The other clusters that have open jobs of the experiment (empty: of all experiments).
std::set<std::string> other_clusters(const Store& store, std::string_view here,
                                     std::string_view experiment);
// What the user is told of their jobs.
std::string left_alone(const std::set<std::string>& clusters);

// Jobs of the experiment whose runner ended before sbatch answered: those that were submitted get
// their id, the others are forgotten; those of other clusters stay as they are. Throws
// QueueUnavailable.
void confirm_submissions(const RunListeners& listeners, Queue& queue, std::string_view experiment);

// Follows every open job of the experiment, but only what they write where they are not of the
// cluster `here`; absent: its name is not known. `left_out` is a job that is being submitted.
void follow_open_jobs(JobFollower& follower, const RunListeners& listeners,
                      const std::optional<std::string>& here, std::string_view experiment,
                      std::optional<int64_t> left_out = std::nullopt);

// Runs of all experiments that wait or run in a job, or whose end in it is not known yet.
std::set<int64_t> runs_in_jobs(const Store& store);

}  // namespace fsdp
