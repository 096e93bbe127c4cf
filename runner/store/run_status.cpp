#include "runner/store/run_status.h"

namespace fsdp {

bool is_cut_short(RunStatus status) {
  switch (status) {
    case RunStatus::kInterrupted:
    case RunStatus::kTimeLimit:
    case RunStatus::kPreempted:
    case RunStatus::kNodeFailed:
    case RunStatus::kCancelled:
    case RunStatus::kUnknown:
      return true;
    case RunStatus::kPlanned:
    case RunStatus::kQueued:
    case RunStatus::kRunning:
    case RunStatus::kFinished:
    case RunStatus::kOutOfMemory:
    case RunStatus::kFailed:
      return false;
  }
  return false;
}

bool was_ended_by_cluster(RunStatus status) {
  return status == RunStatus::kPreempted || status == RunStatus::kNodeFailed ||
         status == RunStatus::kTimeLimit;
}

std::string cut_short_statuses() {
  std::string list;
  for (const std::string_view name : enum_names(RunStatus{})) {
    if (!is_cut_short(*enum_from_name<RunStatus>(name))) continue;
    list += (list.empty() ? "('" : ", '") + std::string(name) + "'";
  }
  return list + ")";
}

}  // namespace fsdp
