#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "contract/text/fields.h"

// How a run stands, and what is known of the ends of its ranks.
namespace fsdp {

using std::string_view_literals::operator""sv;

enum class RunStatus {
  kPlanned,
  kQueued,
  kRunning,
  kFinished,
  kOutOfMemory,
  kFailed,
  kInterrupted,
  kTimeLimit,
  kPreempted,
  kNodeFailed,
  kCancelled,
  kUnknown,
};
constexpr auto enum_names(RunStatus) {
  return std::array{"planned"sv,       "queued"sv,      "running"sv,     "finished"sv,
                    "out_of_memory"sv, "failed"sv,      "interrupted"sv, "time_limit"sv,
                    "preempted"sv,     "node_failed"sv, "cancelled"sv,   "unknown"sv};
}

// Whether the run waits or runs.
bool is_under_way(RunStatus status);
// Whether something outside of the run ended it, so that it says nothing of the run itself.
bool is_cut_short(RunStatus status);
// Whether that was the cluster: its time limit, a preemption, a node.
bool was_ended_by_cluster(RunStatus status);
// Those for which it holds, as a list of SQL: "('interrupted', ...)".
std::string cut_short_statuses();

// The kind of a rank's last event; none: it said nothing about its end.
enum class RankEndKind { kNone, kFinished, kFailed, kInterrupted };
constexpr auto enum_names(RankEndKind) {
  return std::array{"none"sv, "run_finished"sv, "run_failed"sv, "run_interrupted"sv};
}

// What is known of the end of one rank.
struct RankEnd {
  int rank = 0;
  RankEndKind kind = RankEndKind::kNone;
  int64_t exit_code = 0;                      // of run_failed
  std::string reason;                         // of run_failed; of run_finished: what is missing
  int64_t last_step = 0;                      // 0: none
  std::optional<int64_t> last_event_unix_ms;  // absent: the rank wrote no event
};

}  // namespace fsdp
