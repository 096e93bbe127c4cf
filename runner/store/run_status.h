#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/text/fields.h"

// The statuses of runs.
namespace fsdp {

using std::string_view_literals::operator""sv;

enum class RunStatus {
  kPlanned,
  kQueued,
  kRunning,
  kFinished,
  kOutOfMemory,
  // The memory of the host, or of a job or container on it, ran out. No result.
  kOutOfHostMemory,
  kFailed,
  kInterrupted,
  kTimeLimit,
  kPreempted,
  kNodeFailed,
  kCancelled,
  kUnknown,
};
constexpr auto enum_names(RunStatus) {
  return std::array{"planned"sv,   "queued"sv,        "running"sv,
                    "finished"sv,  "out_of_memory"sv, "out_of_host_memory"sv,
                    "failed"sv,    "interrupted"sv,   "time_limit"sv,
                    "preempted"sv, "node_failed"sv,   "cancelled"sv,
                    "unknown"sv};
}

// The statuses of runs that something outside of the run ended. Such an end tells nothing about the
// run itself.
inline constexpr std::array kCutShort = {RunStatus::kInterrupted, RunStatus::kTimeLimit,
                                         RunStatus::kPreempted,   RunStatus::kNodeFailed,
                                         RunStatus::kCancelled,   RunStatus::kUnknown};
constexpr bool is_cut_short(RunStatus status) {
  return std::ranges::find(kCutShort, status) != kCutShort.end();
}
// True if the run has a result. Running out of memory is a result, too.
constexpr bool is_result(RunStatus status) {
  return status == RunStatus::kFinished || status == RunStatus::kOutOfMemory;
}
// True if the run waits or runs.
constexpr bool is_under_way(RunStatus status) {
  return status == RunStatus::kQueued || status == RunStatus::kRunning;
}
// True if the cluster ended the run: by a time limit, a preemption, a failed node.
constexpr bool was_ended_by_cluster(RunStatus status) {
  return status == RunStatus::kPreempted || status == RunStatus::kNodeFailed ||
         status == RunStatus::kTimeLimit;
}

// One line of the view `statuses`: the state of a run in its experiment's current list.
struct StatusRow {
  std::string experiment;
  int64_t run = 0;
  std::string point;
  RunStatus status = RunStatus::kPlanned;
  std::string reason;
  std::optional<int64_t> attempt;  // as in the view `comparison`
  std::optional<int64_t> started_unix_ms;
  std::optional<int64_t> ended_unix_ms;  // nullopt while it runs
  std::string host;                      // of the runner; empty without an attempt
  int64_t runner_process_id = 0;
  std::optional<int64_t> steps_done;     // of the whole run, with the steps before a checkpoint
  std::optional<int64_t> steps_planned;  // of the whole run; nullopt until rank 0 reports
  std::optional<double> step_time_ms_median;
  std::optional<int64_t> memory_allocated_bytes_max;
  std::optional<double> loss_last;
  // The run's newest job, or the attempt's job; empty: no job, or sbatch has not answered.
  std::string slurm_job;
  std::string node_list;
  // Slurm's last answer about a job that is not over.
  std::string job_state;
  std::string job_reason;                   // why it is pending
  std::optional<int64_t> job_ends_unix_ms;  // its time limit

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("experiment", self.experiment);
    visit("run", self.run);
    visit("point", self.point);
    visit("status", self.status);
    visit("reason", self.reason);
    visit("attempt", self.attempt);
    visit("started_unix_ms", self.started_unix_ms);
    visit("ended_unix_ms", self.ended_unix_ms);
    visit("host", self.host);
    visit("runner_process_id", self.runner_process_id);
    visit("steps_done", self.steps_done);
    visit("steps_planned", self.steps_planned);
    visit("step_time_ms_median", self.step_time_ms_median);
    visit("memory_allocated_bytes_max", self.memory_allocated_bytes_max);
    visit("loss_last", self.loss_last);
    visit("slurm_job", self.slurm_job);
    visit("node_list", self.node_list);
    visit("job_state", self.job_state);
    visit("job_reason", self.job_reason);
    visit("job_ends_unix_ms", self.job_ends_unix_ms);
  }
};

}  // namespace fsdp
