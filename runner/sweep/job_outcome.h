#pragma once

#include <optional>
#include <span>
#include <string>

#include "runner/slurm/slurm.h"
#include "runner/store/run_status.h"
#include "runner/sweep/attempt_outcome.h"
#include "runner/sweep/job_attempt_files.h"

// How attempts and tasks of Slurm's jobs ended: pure functions of what is known.
namespace fsdp {

// What is known of the end of an attempt that was started in a job.
struct JobAttemptFacts {
  std::span<const RankEnd> ranks;      // one per rank
  std::optional<JobAttemptEnd> end{};  // what the job wrote; absent: nothing, or not yet
  // Another attempt followed it, or its task waits again.
  bool was_requeued = false;
  // Slurm's word about the task, which is over; absent: Slurm does not know it any more, or it goes
  // on with other runs.
  std::optional<TaskState> task{};
};

// What ranks say of a result (finished, out of memory) outranks what became of the task, and that
// what the job wrote about the ranks' processes. Inputs that changed outrank all:
// outcome_with_inputs().
AttemptOutcome job_attempt_outcome(const JobAttemptFacts& facts);

// Whether the ranks' own words decide: files on a network file system may show up some seconds
// after Slurm's word.
bool ranks_have_spoken(std::span<const RankEnd> ranks);

// How a run ended whose task is over without that an attempt came about. `output` is the job's.
AttemptOutcome outcome_without_attempt(const std::optional<TaskState>& task,
                                       const std::string& output);

// Whether the task was over before it had a node.
bool never_started(const std::optional<TaskState>& task);

// Whether a run that ended so goes on in another job, `in_a_row` of its newest attempts (at least
// 1) having been ended by the cluster.
bool is_to_restart(RunStatus status, int64_t in_a_row, int64_t max_restarts,
                   bool keeps_checkpoints);
// Whether the cluster, not the run, ended it.
bool was_ended_by_cluster(RunStatus status);

}  // namespace fsdp
