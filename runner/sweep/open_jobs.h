#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "runner/slurm/slurm.h"
#include "runner/sweep/job_follower.h"
#include "runner/sweep/open_attempt.h"

// Jobs that an earlier runner submitted and did not see to their end.
namespace fsdp {

// Jobs of the experiment whose runner ended before sbatch answered: those that were submitted get
// their id, the others are forgotten. Throws SlurmUnavailable.
void confirm_submissions(const RunListeners& listeners, SlurmCluster& cluster,
                         std::string_view experiment);

// Follows every open job of the experiment that has an id.
void follow_open_jobs(JobFollower& follower, const RunListeners& listeners,
                      std::string_view experiment);

// Runs of all experiments that wait or run in a job, or whose end in it is not known yet.
std::set<int64_t> runs_in_jobs(const Store& store);

}  // namespace fsdp
