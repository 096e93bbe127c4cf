#include "runner/run/judgement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>

#include "contract/record/exit_code.h"
#include "contract/record/host_memory.h"
#include "contract/spec/yaml_value.h"

namespace fsdp {
namespace {

bool failed_with(const RankState& end, ExitCode code) {
  return end.kind == RankEndKind::kFailed && end.exit_code == static_cast<int64_t>(code);
}

// Returns the earliest of the ranks that match, or null.
const RankState* earliest(std::span<const RankState> ranks,
                          const std::function<bool(const RankState&)>& matches) {
  const RankState* first = nullptr;
  for (const RankState& end : ranks) {
    if (matches(end) && (!first || end.last_event_unix_ms < first->last_event_unix_ms)) {
      first = &end;
    }
  }
  return first;
}

std::string rank_name(const RankState& end) { return "rank " + std::to_string(end.rank); }

const RankState* silent_rank(std::span<const RankState> ranks) {
  const auto silent = std::ranges::find(ranks, RankEndKind::kNone, &RankState::kind);
  return silent == ranks.end() ? nullptr : &*silent;
}

std::string last_words(const RankState& silent) {
  return fmt::format("{} ended without reporting why, {}", rank_name(silent),
                     silent.last_step > 0 ? fmt::format("after step {}", silent.last_step)
                                          : "before its first step");
}

Verdict from_failure(const RankState& failure, RunStatus status) {
  return {status, rank_name(failure) + ": " + failure.reason, failure.rank};
}

Verdict from_communication_error(const RankState& failure, std::span<const RankState> ranks) {
  Verdict verdict = from_failure(failure, RunStatus::kFailed);
  verdict.is_explained = false;
  if (const RankState* silent = silent_rank(ranks)) {
    verdict.reason = last_words(*silent) + "; then " + verdict.reason;
    verdict.reason_rank = silent->rank;
  }
  return verdict;
}

constexpr const char* kTimeLimitNear = "the job's time limit (slurm.time) came near";
constexpr const char* kRequeued = "the job was requeued, by a preemption or by scontrol requeue";

struct EndOfTask {
  std::string_view state;
  RunStatus status;
  std::string_view reason;
};

// Slurm's final states that say why a task ended. Other states only say whether its script failed.
constexpr std::array kEnds{
    EndOfTask{"OUT_OF_MEMORY", RunStatus::kOutOfHostMemory, kSlurmLimitReached},
    EndOfTask{"TIMEOUT", RunStatus::kTimeLimit, "the job's time limit (slurm.time) was reached"},
    EndOfTask{"DEADLINE", RunStatus::kTimeLimit, "the job's deadline was reached"},
    EndOfTask{"PREEMPTED", RunStatus::kPreempted, "another job took the nodes"},
    EndOfTask{"NODE_FAIL", RunStatus::kNodeFailed, "a node of the job failed"},
    EndOfTask{"BOOT_FAIL", RunStatus::kNodeFailed, "a node of the job did not start"},
    EndOfTask{"CANCELLED", RunStatus::kCancelled, "the job was cancelled"},
};

const EndOfTask* end_of(const std::optional<TaskState>& task) {
  if (!task) return nullptr;
  const auto found = std::ranges::find(kEnds, task->state, &EndOfTask::state);
  return found == kEnds.end() ? nullptr : &*found;
}

// ", after step 37", ", before the first step".
std::string after_last_step(std::span<const RankState> ranks) {
  if (ranks.empty()) return "";
  const int64_t step = std::ranges::max(ranks, {}, &RankState::last_step).last_step;
  return step == 0 ? ", before the first step" : ", after step " + std::to_string(step);
}

bool has_spoken(std::span<const RankState> ranks, int rank) {
  return std::ranges::any_of(ranks, [&](const RankState& end) {
    return end.rank == rank && end.kind != RankEndKind::kNone;
  });
}

Verdict cut_short(std::span<const RankState> ranks, RunStatus status, std::string_view reason) {
  return {status, std::string(reason) + after_last_step(ranks)};
}

Verdict as_seen(std::span<const RankState> ranks, const AttemptEnd& end, const Verdict& said) {
  switch (end.outcome) {
    case LaunchOutcome::kOutOfMemory:
      return {RunStatus::kOutOfMemory, end.reason, end.first_rank};
    case LaunchOutcome::kTimeLimit:
      return cut_short(ranks, RunStatus::kTimeLimit,
                       end.was_requeued ? kTimeLimitNear : end.reason);
    case LaunchOutcome::kInterrupted:
      if (end.was_requeued) return cut_short(ranks, RunStatus::kPreempted, kRequeued);
      return cut_short(ranks, RunStatus::kInterrupted, end.reason);
    case LaunchOutcome::kNodeFailed:  // it caused the errors that ranks report
      return cut_short(ranks, RunStatus::kNodeFailed, end.reason);
    case LaunchOutcome::kNotStarted:
      return {RunStatus::kFailed, end.reason};
    case LaunchOutcome::kFailed:
      // Without first_rank, nobody knows which rank ended badly.
      if (end.first_rank < 0 ? said.is_explained : has_spoken(ranks, end.first_rank)) return said;
      return {RunStatus::kFailed, end.reason + after_last_step(ranks), end.first_rank};
    case LaunchOutcome::kExited:
    case LaunchOutcome::kUnseen:
      break;
  }
  if (said.is_explained) return said;
  return {RunStatus::kFailed, "every rank exited with status 0, but " + said.reason,
          said.reason_rank};
}

// Judges an attempt if nobody saw its processes end.
Verdict of_killed(const AttemptEnd& end, Verdict said) {
  if (!end.in_job) {
    if (!said.is_explained) said.reason.insert(0, "the runner was killed; ");
  } else if (said.is_explained && said.status == RunStatus::kFailed) {
    // The ranks say why.
  } else if (!end.task) {
    said.status = RunStatus::kUnknown;
    said.reason.insert(0, "Slurm does not know the job any more, and ");
  } else {
    said.status = RunStatus::kFailed;
    said.reason = "the job ended as " + end.task->state + ", and " + said.reason;
  }
  return said;
}

}  // namespace

Verdict judge_by_ranks(std::span<const RankState> ranks) {
  using enum RankEndKind;
  if (!ranks.empty() &&
      std::ranges::all_of(ranks, [](auto& end) { return end.kind == kFinished; })) {
    const RankState* incomplete = earliest(ranks, [](auto& end) { return !end.reason.empty(); });
    if (incomplete) return from_failure(*incomplete, RunStatus::kFailed);
    return {RunStatus::kFinished};
  }
  const RankState* out_of_memory =
      earliest(ranks, [](auto& end) { return failed_with(end, ExitCode::kOutOfMemory); });
  if (out_of_memory) return from_failure(*out_of_memory, RunStatus::kOutOfMemory);

  const RankState* failure = earliest(ranks, [](auto& end) {
    return end.kind == kFailed && !failed_with(end, ExitCode::kCommunication);
  });
  if (failure) return from_failure(*failure, RunStatus::kFailed);

  const RankState* communication =
      earliest(ranks, [](auto& end) { return failed_with(end, ExitCode::kCommunication); });
  const RankState* interrupted =
      earliest(ranks, [](auto& end) { return end.kind == kInterrupted; });
  if (communication &&
      (!interrupted || communication->last_event_unix_ms < interrupted->last_event_unix_ms)) {
    return from_communication_error(*communication, ranks);
  }
  if (interrupted) {
    return {RunStatus::kInterrupted,
            "asked to stop after step " + std::to_string(interrupted->last_step)};
  }
  if (const RankState* silent = silent_rank(ranks)) {
    return {RunStatus::kInterrupted, last_words(*silent), silent->rank, 0, false};
  }
  return {RunStatus::kInterrupted, "no rank was started", -1, 0, false};
}

std::optional<int64_t> last_event_unix_ms(std::span<const RankState> ranks) {
  std::optional<int64_t> last;
  for (const RankState& rank : ranks) last = std::max(last, rank.last_event_unix_ms);
  return last;
}

namespace {

Verdict judge_without_result(std::span<const RankState> ranks, const AttemptEnd& end,
                             const Verdict& said) {
  const bool is_seen = end.outcome != LaunchOutcome::kUnseen;
  if (end.was_requeued && !is_seen) {
    return cut_short(ranks, RunStatus::kNodeFailed, "the job was requeued without notice");
  }
  const EndOfTask* task = end.was_requeued ? nullptr : end_of(end.task);
  if (task) return cut_short(ranks, task->status, task->reason);
  return is_seen ? as_seen(ranks, end, said) : of_killed(end, said);
}

}  // namespace

std::string restarts_ran_out(int64_t starts_in_a_row) {
  return fmt::format("; slurm.max_restarts is reached: {} in a row without a new checkpoint",
                     counted(starts_in_a_row, "start"));
}

Verdict judge(std::span<const RankState> ranks, const AttemptEnd& end) {
  Verdict verdict = judge_by_ranks(ranks);
  if (!verdict.is_result()) {
    verdict = judge_without_result(ranks, end, verdict);
    if (end.starts_in_a_row) verdict.reason += restarts_ran_out(*end.starts_in_a_row);
  }
  if (verdict.status == RunStatus::kOutOfMemory && says_host_memory(verdict.reason)) {
    verdict.status = RunStatus::kOutOfHostMemory;
  }
  const bool is_of_node = verdict.status == RunStatus::kOutOfHostMemory && end.in_job;
  if (is_of_node) verdict.reason += "; raise slurm.mem";
  verdict.ended_unix_ms = end.ended_unix_ms;
  return verdict;
}

Verdict judge_without_attempt(const std::optional<TaskState>& task, const std::string& output) {
  if (!task) {
    return {RunStatus::kUnknown, "Slurm does not know the job any more, and the run did not start"};
  }
  if (const EndOfTask* end = end_of(task)) {
    return {end->status, std::string(end->reason) + " before the run started"};
  }
  return {RunStatus::kFailed,
          "the job ended as " + task->state + " before the run started; its output: " + output};
}

bool reports_decide(std::span<const RankState> ranks) {
  return judge_by_ranks(ranks).is_result() ||
         std::ranges::none_of(
             ranks, [](RankEndKind kind) { return kind == RankEndKind::kNone; }, &RankState::kind);
}

bool is_to_restart(RunStatus status, int64_t in_a_row, int64_t max_restarts,
                   bool keeps_checkpoints) {
  if (!was_ended_by_cluster(status) || in_a_row > max_restarts) return false;
  return status != RunStatus::kTimeLimit || keeps_checkpoints;
}

}  // namespace fsdp
