#pragma once

#include <span>
#include <string>

#include "runner/launch/launcher.h"
#include "runner/store/run_status.h"

namespace fsdp {

struct AttemptOutcome {
  RunStatus status = RunStatus::kUnknown;
  std::string reason;  // one line; empty when finished
  int reason_rank = -1;
};

// How an attempt ended, from what the launcher saw and what the ranks said (one entry per rank). A
// rank's own words about its end say more than its exit status; a signal or silence leaves the
// launcher's. A launch that was told to stop is what it was told, unless it was done by then.
AttemptOutcome attempt_outcome(const LaunchResult& launch, std::span<const RankEnd> ranks);

// ", after step 37", ", before the first step".
std::string after_last_step(std::span<const RankEnd> ranks);

}  // namespace fsdp
