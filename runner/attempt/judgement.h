#pragma once

#include <optional>
#include <span>
#include <string>

#include "runner/attempt/records.h"
#include "runner/attempt/said_by_ranks.h"
#include "runner/launch/launcher.h"
#include "runner/launch/queue.h"

// How attempts and tasks of Slurm's jobs ended: pure functions of what is known.
namespace fsdp {

// What is known of an attempt none of whose processes is left.
struct Evidence {
  std::span<const RankEnd> ranks;        // one per rank; none: they were not started
  std::optional<LaunchResult> launch{};  // what whoever started them saw; absent: it was killed
  bool of_job = false;                   // started in a job of Slurm, not by a runner
  bool was_requeued = false;             // another attempt followed it, or its task waits again
  std::optional<TaskState> task{};       // Slurm's word about its task, which is over
  bool shared_memory = false;            // the task runs several runs beside each other
};

// In this order: a result that ranks report; for a task that waits again, why; the state in which
// Slurm ended the task, but for memory that runs shared; what the launcher saw, where ranks do not
// say more of it themselves (a launch that was told to stop is what it was told); what ranks say;
// what is left to say. Inputs that changed outrank all: ending_with_inputs().
Ending judge(const Evidence& evidence);

// How a run ended whose task is over without that an attempt came about. `output` is the job's.
Ending judge_without_attempt(const std::optional<TaskState>& task, const std::string& output);

// Whether the ranks' own words decide: files on a network file system may show up some seconds
// after Slurm's word.
bool ranks_have_spoken(std::span<const RankEnd> ranks);

// Whether a run that ended so goes on in another job, `in_a_row` of its newest attempts (at least
// 1) having been ended by the cluster.
bool is_to_restart(RunStatus status, int64_t in_a_row, int64_t max_restarts,
                   bool keeps_checkpoints);

}  // namespace fsdp
