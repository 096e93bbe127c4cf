#pragma once

#include <optional>
#include <span>
#include <string>

#include "runner/attempt/records.h"
#include "runner/attempt/said_by_ranks.h"
#include "runner/launch/launcher.h"
#include "runner/launch/queue.h"

// Pure functions that judge how attempts and tasks of Slurm's jobs ended.
namespace fsdp {

// The facts known about an attempt that has no running process any more.
struct Evidence {
  std::span<const RankEnd> ranks;        // one per rank; empty: no rank was started
  std::optional<LaunchResult> launch{};  // as the launcher saw it; nullopt: the launcher was killed
  bool of_job = false;                   // started in a job of Slurm, not by a runner
  bool was_requeued = false;             // another attempt followed it, or its task waits again
  std::optional<TaskState> task{};       // Slurm's state of its task, which is over
  bool shared_memory = false;            // the task runs several runs at the same time
};

// Returns how the attempt ended. The first of these decides:
//   1. A result that ranks report.
//   2. The reason why the task waits again.
//   3. Slurm's final state of the task, unless its runs shared the memory that ran out.
//   4. The launcher's view, unless ranks know more. A launch that was told to stop ended by that.
//   5. The ranks' own reports.
//   6. Otherwise the attempt was killed, and nobody knows more.
// Changed inputs outrank all of these: see ending_with_changed_input().
Ending judge(const Evidence& evidence);

// Returns the outcome of a run if its task ended before an attempt began. `output` is the job's.
Ending judge_without_attempt(const std::optional<TaskState>& task, const std::string& output);

// True if the ranks' own reports decide. On a network file system, files may show up some seconds
// after Slurm reports the end.
bool ranks_have_spoken(std::span<const RankEnd> ranks);

// True if a run that ended with `status` goes on in another job. The cluster has ended its newest
// `in_a_row` attempts (at least 1).
bool is_to_restart(RunStatus status, int64_t in_a_row, int64_t max_restarts,
                   bool keeps_checkpoints);

}  // namespace fsdp
