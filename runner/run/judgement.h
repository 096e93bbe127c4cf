#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runner/run/launcher.h"
#include "runner/store/attempt_reports.h"
#include "runner/store/attempts.h"

// Pure functions that judge how attempts and Slurm tasks ended.
namespace fsdp {

// Returns how an attempt without running processes ended, from its ranks' last events alone.
// `ranks` has one entry per rank. The first of these decides:
//   1. All ranks finished: finished, or failed if a rank misses steps.
//   2. A rank ran out of memory: out_of_memory.
//   3. A rank failed, not by a communication error: failed, for the earliest failure.
//   4. The earlier of two decides: a request to stop (interrupted), a communication error (failed).
//   5. Otherwise: interrupted.
Verdict judge_by_ranks(std::span<const RankState> ranks);

// Returns the time of the last event of any rank; nullopt: there is none.
std::optional<int64_t> last_event_unix_ms(std::span<const RankState> ranks);

// Returns how the attempt ended. The first case that applies decides:
//   1. The ranks report a result: this result.
//   2. The job was requeued and nobody saw the attempt end: node_failed.
//   3. Slurm has a final state in kEnds, and the job was not requeued: this state.
//   4. The launcher saw the processes end: its outcome. For kExited and kFailed, the ranks' reports
//      decide if they explain the end.
//   5. Nobody saw the end, outside of a job: the ranks' reports.
//   6. Nobody saw the end, in a job: the failure that ranks report. Without one: unknown if Slurm
//      has forgotten the job, else failed.
// out_of_memory becomes out_of_host_memory if the reason says that the host's memory ran out.
// Changed inputs outrank all of these: see judge_and_check_inputs().
// The reason also says if slurm.max_restarts forbids another start.
Verdict judge(std::span<const RankState> ranks, const AttemptEnd& end);

// Returns "; slurm.max_restarts is reached: 4 starts in a row without a new checkpoint".
std::string restarts_ran_out(int64_t starts_in_a_row);

// Returns the outcome of a run if its task ended before an attempt began. `output` describes the
// job's output for the reason.
Verdict judge_without_attempt(const std::optional<TaskState>& task, const std::string& output);

// True if the ranks reported a result, or if every rank reported its end. Otherwise reports may be
// missing: on a network file system, files may show up some seconds after Slurm reports the end.
bool reports_decide(std::span<const RankState> ranks);

// The attempts at a run so far, for slurm.max_restarts.
struct EndedAttempts {
  int64_t in_a_row = 0;         // that the cluster ended, since the newest checkpoint
  int64_t checkpoint_step = 0;  // of the newest checkpoint of all attempts

  // A checkpoint is new only if its step is the highest so far. Attempts that begin from another
  // run's checkpoint may repeat the same steps.
  void add(RunStatus status, int64_t newest_checkpoint_step) {
    if (newest_checkpoint_step > checkpoint_step) in_a_row = 0;
    in_a_row = was_ended_by_cluster(status) ? in_a_row + 1 : 0;
    checkpoint_step = std::max(checkpoint_step, newest_checkpoint_step);
  }
};

// True if a run that ended with `status` goes on in another job. The cluster has ended its newest
// `in_a_row` attempts (at least 1).
bool is_to_restart(RunStatus status, int64_t in_a_row, int64_t max_restarts,
                   bool keeps_checkpoints);

}  // namespace fsdp
