#include "runner/sweep/attempt_outcome.h"

#include <algorithm>

namespace fsdp {
namespace {

// -1: it is not known which rank ended badly.
bool said_how_it_ended(std::span<const RankEnd> ranks, int rank) {
  if (rank < 0) return status_from_events(ranks).cause_known;
  return std::any_of(ranks.begin(), ranks.end(), [&](const RankEnd& end) {
    return end.rank == rank && end.kind != RankEndKind::kNone;
  });
}

}  // namespace

std::string after_last_step(std::span<const RankEnd> ranks) {
  int64_t step = 0;
  for (const RankEnd& end : ranks) step = std::max(step, end.last_step);
  return step == 0 ? ", before the first step" : ", after step " + std::to_string(step);
}

AttemptOutcome attempt_outcome(const LaunchResult& launch, std::span<const RankEnd> ranks) {
  const AttemptEnd said = status_from_events(ranks);
  const AttemptOutcome as_said{said.status, said.reason, said.reason_rank};
  if (said.status == RunStatus::kFinished || said.status == RunStatus::kOutOfMemory) return as_said;
  switch (launch.outcome) {
    case LaunchOutcome::kOutOfMemory:
      return {RunStatus::kOutOfMemory, launch.reason, launch.first_rank};
    case LaunchOutcome::kTimeLimit:
      return {RunStatus::kTimeLimit, launch.reason + after_last_step(ranks), -1};
    case LaunchOutcome::kInterrupted:
      return {RunStatus::kInterrupted, launch.reason + after_last_step(ranks), -1};
    case LaunchOutcome::kNodeFailed:  // what the other ranks say follows from it
      return {RunStatus::kNodeFailed, launch.reason + after_last_step(ranks), -1};
    case LaunchOutcome::kFailed:
      if (said_how_it_ended(ranks, launch.first_rank)) return as_said;
      return {RunStatus::kFailed, launch.reason + after_last_step(ranks), launch.first_rank};
    case LaunchOutcome::kExited:
      break;
  }
  if (said.cause_known) return as_said;
  return {RunStatus::kFailed, "every rank exited with status 0, but " + said.reason,
          said.reason_rank};
}

}  // namespace fsdp
