#include "runner/store/run_status.h"

#include <algorithm>
#include <functional>

#include "contract/record/exit_code.h"

namespace fsdp {
namespace {

bool failed_with(const RankEnd& end, ExitCode code) {
  return end.kind == RankEndKind::kFailed && end.exit_code == static_cast<int64_t>(code);
}

// The earliest of the ranks for which `matches` holds, or null.
const RankEnd* earliest(std::span<const RankEnd> ranks,
                        const std::function<bool(const RankEnd&)>& matches) {
  const RankEnd* first = nullptr;
  for (const RankEnd& end : ranks) {
    if (matches(end) && (!first || end.last_event_unix_ms < first->last_event_unix_ms)) {
      first = &end;
    }
  }
  return first;
}

std::string rank_name(const RankEnd& end) { return "rank " + std::to_string(end.rank); }

const RankEnd* silent_rank(std::span<const RankEnd> ranks) {
  const auto silent =
      std::ranges::find(ranks, RankEndKind::kNone, [](const RankEnd& end) { return end.kind; });
  return silent == ranks.end() ? nullptr : &*silent;
}

std::string last_words(const RankEnd& silent) {
  return rank_name(silent) + " ended without a last event, " +
         (silent.last_step > 0 ? "after step " + std::to_string(silent.last_step)
                               : "before its first step");
}

AttemptEnd ended(RunStatus status, std::string reason, int reason_rank, bool cause_known) {
  AttemptEnd end;
  end.status = status;
  end.reason = std::move(reason);
  end.reason_rank = reason_rank;
  end.cause_known = cause_known;
  return end;
}

AttemptEnd from_failure(const RankEnd& failure, RunStatus status) {
  return ended(status, rank_name(failure) + ": " + failure.reason, failure.rank, true);
}

AttemptEnd from_communication_error(const RankEnd& failure, std::span<const RankEnd> ranks) {
  AttemptEnd end = from_failure(failure, RunStatus::kFailed);
  end.cause_known = false;
  if (const RankEnd* silent = silent_rank(ranks)) {
    end.reason = last_words(*silent) + "; then " + end.reason;
    end.reason_rank = silent->rank;
  }
  return end;
}

AttemptEnd decide(std::span<const RankEnd> ranks) {
  using enum RankEndKind;
  if (!ranks.empty() &&
      std::ranges::all_of(ranks, [](auto& end) { return end.kind == kFinished; })) {
    const RankEnd* incomplete = earliest(ranks, [](auto& end) { return !end.reason.empty(); });
    if (incomplete) return from_failure(*incomplete, RunStatus::kFailed);
    return ended(RunStatus::kFinished, "", -1, true);
  }
  const RankEnd* out_of_memory =
      earliest(ranks, [](auto& end) { return failed_with(end, ExitCode::kOutOfMemory); });
  if (out_of_memory) return from_failure(*out_of_memory, RunStatus::kOutOfMemory);

  const RankEnd* failure = earliest(ranks, [](auto& end) {
    return end.kind == kFailed && !failed_with(end, ExitCode::kCommunication);
  });
  if (failure) return from_failure(*failure, RunStatus::kFailed);

  const RankEnd* communication =
      earliest(ranks, [](auto& end) { return failed_with(end, ExitCode::kCommunication); });
  const RankEnd* interrupted = earliest(ranks, [](auto& end) { return end.kind == kInterrupted; });
  if (communication &&
      (!interrupted || communication->last_event_unix_ms < interrupted->last_event_unix_ms)) {
    return from_communication_error(*communication, ranks);
  }
  if (interrupted) {
    return ended(RunStatus::kInterrupted,
                 "asked to stop after step " + std::to_string(interrupted->last_step), -1, true);
  }
  if (const RankEnd* silent = silent_rank(ranks)) {
    return ended(RunStatus::kInterrupted, last_words(*silent), silent->rank, false);
  }
  return ended(RunStatus::kInterrupted, "no rank was started", -1, false);
}

}  // namespace

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

std::string cut_short_statuses() {
  std::string list;
  for (const std::string_view name : enum_names(RunStatus{})) {
    if (!is_cut_short(*enum_from_name<RunStatus>(name))) continue;
    list += (list.empty() ? "('" : ", '") + std::string(name) + "'";
  }
  return list + ")";
}

AttemptEnd status_from_events(std::span<const RankEnd> ranks) {
  AttemptEnd end = decide(ranks);
  for (const RankEnd& rank : ranks) {
    end.ended_unix_ms = std::max(end.ended_unix_ms, rank.last_event_unix_ms);
  }
  return end;
}

}  // namespace fsdp
