#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/text/fields.h"

// The statuses of runs, and the ends of their ranks.
namespace fsdp {

using std::string_view_literals::operator""sv;

enum class RunStatus {
  kPlanned,
  kQueued,
  kRunning,
  kFinished,
  kOutOfMemory,
  // Memory of the host ran out, and the experiment does not ask about the limit. No result.
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

// The kind of a rank's last event; none: it did not report its end.
enum class RankEndKind { kNone, kFinished, kFailed, kInterrupted };
constexpr auto enum_names(RankEndKind) {
  return std::array{"none"sv, "run_finished"sv, "run_failed"sv, "run_interrupted"sv};
}

// The end of one rank, as far as known.
struct RankEnd {
  int rank = 0;
  RankEndKind kind = RankEndKind::kNone;
  int64_t exit_code = 0;                      // of run_failed
  std::string reason;                         // of run_failed; for run_finished: its gaps
  int64_t last_step = 0;                      // 0: none
  std::optional<int64_t> last_event_unix_ms;  // nullopt: the rank wrote no event
};

}  // namespace fsdp
