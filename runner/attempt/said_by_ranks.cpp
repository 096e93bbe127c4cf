#include "runner/attempt/said_by_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "contract/record/exit_code.h"

namespace fsdp {
namespace {

bool failed_with(const RankEnd& end, ExitCode code) {
  return end.kind == RankEndKind::kFailed && end.exit_code == static_cast<int64_t>(code);
}

// Returns the earliest of the ranks that match, or null.
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
  const auto silent = std::ranges::find(ranks, RankEndKind::kNone, &RankEnd::kind);
  return silent == ranks.end() ? nullptr : &*silent;
}

std::string last_words(const RankEnd& silent) {
  return fmt::format("{} ended without a last event, {}", rank_name(silent),
                     silent.last_step > 0 ? fmt::format("after step {}", silent.last_step)
                                          : "before its first step");
}

SaidByRanks ended(RunStatus status, std::string reason, int reason_rank, bool cause_known) {
  return {.ending = {status, std::move(reason), reason_rank}, .cause_known = cause_known};
}

SaidByRanks from_failure(const RankEnd& failure, RunStatus status) {
  return ended(status, rank_name(failure) + ": " + failure.reason, failure.rank, true);
}

SaidByRanks from_communication_error(const RankEnd& failure, std::span<const RankEnd> ranks) {
  SaidByRanks end = from_failure(failure, RunStatus::kFailed);
  end.cause_known = false;
  if (const RankEnd* silent = silent_rank(ranks)) {
    end.ending.reason = last_words(*silent) + "; then " + end.ending.reason;
    end.ending.reason_rank = silent->rank;
  }
  return end;
}

SaidByRanks decide(std::span<const RankEnd> ranks) {
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

SaidByRanks said_by_ranks(std::span<const RankEnd> ranks) {
  SaidByRanks said = decide(ranks);
  for (const RankEnd& rank : ranks) {
    said.ended_unix_ms = std::max(said.ended_unix_ms, rank.last_event_unix_ms);
  }
  return said;
}

}  // namespace fsdp
