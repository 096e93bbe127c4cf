#include "runner/store/run_status.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

namespace fsdp {

using enum RunStatus;

constexpr std::array kCutShort = {kInterrupted, kTimeLimit, kPreempted,
                                  kNodeFailed,  kCancelled, kUnknown};

bool is_under_way(RunStatus status) { return status == kQueued || status == kRunning; }

bool is_cut_short(RunStatus status) {
  return std::ranges::find(kCutShort, status) != kCutShort.end();
}

bool was_ended_by_cluster(RunStatus status) {
  return status == kPreempted || status == kNodeFailed || status == kTimeLimit;
}

std::string cut_short_statuses() {
  const auto names = kCutShort | std::views::transform(name_of<RunStatus>);
  return fmt::format("('{}')", fmt::join(names, "', '"));
}

}  // namespace fsdp
