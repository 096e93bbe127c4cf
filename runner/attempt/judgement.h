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

// Returns how the attempt ended. The first of these decides:
//   1. a result that ranks report;
//   2. the reason why the task waits again;
//   3. the state in which Slurm ended the task, unless its runs shared the memory that ran out;
//   4. the launcher's view, unless ranks say more (a launch that was told to stop ended for that);
//   5. the words of the ranks;
//   6. otherwise it was killed, and nobody says more.
// Inputs that changed outrank all: ending_with_inputs().
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
