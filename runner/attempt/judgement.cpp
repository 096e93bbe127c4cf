#include "runner/attempt/judgement.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "contract/record/host_memory.h"

namespace fsdp {
namespace {

constexpr const char* kTimeLimitNear = "the job's time limit (slurm.time) came near";
constexpr const char* kNodesTaken = "another job took the nodes";

struct EndOfTask {
  std::string_view state;
  RunStatus status;
  std::string_view reason;
};

// The states that tell more than the end of the batch script.
constexpr std::array kEnds{
    EndOfTask{"OUT_OF_MEMORY", RunStatus::kOutOfMemory, kSlurmLimitReached},
    EndOfTask{"TIMEOUT", RunStatus::kTimeLimit, "the job's time limit (slurm.time) was reached"},
    EndOfTask{"DEADLINE", RunStatus::kTimeLimit, "the job's deadline was reached"},
    EndOfTask{"PREEMPTED", RunStatus::kPreempted, kNodesTaken},
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
std::string after_last_step(std::span<const RankEnd> ranks) {
  if (ranks.empty()) return "";
  const int64_t step = std::ranges::max(ranks, {}, &RankEnd::last_step).last_step;
  return step == 0 ? ", before the first step" : ", after step " + std::to_string(step);
}

bool has_spoken(std::span<const RankEnd> ranks, int rank) {
  return std::ranges::any_of(ranks, [&](const RankEnd& end) {
    return end.rank == rank && end.kind != RankEndKind::kNone;
  });
}

Ending cut_short(const Evidence& evidence, RunStatus status, std::string_view reason) {
  return {status, std::string(reason) + after_last_step(evidence.ranks)};
}

Ending as_seen(const Evidence& evidence, const SaidByRanks& said) {
  const LaunchResult& launch = *evidence.launch;
  switch (launch.outcome) {
    case LaunchOutcome::kOutOfMemory:
      return {RunStatus::kOutOfMemory, launch.reason, launch.first_rank};
    case LaunchOutcome::kTimeLimit:
      if (evidence.was_requeued) return cut_short(evidence, RunStatus::kTimeLimit, kTimeLimitNear);
      return cut_short(evidence, RunStatus::kTimeLimit, launch.reason);
    case LaunchOutcome::kInterrupted:
      if (evidence.was_requeued) return cut_short(evidence, RunStatus::kPreempted, kNodesTaken);
      return cut_short(evidence, RunStatus::kInterrupted, launch.reason);
    case LaunchOutcome::kNodeFailed:  // what the other ranks say follows from it
      return cut_short(evidence, RunStatus::kNodeFailed, launch.reason);
    case LaunchOutcome::kFailed:
      // Without first_rank, nobody knows which rank ended badly.
      if (launch.first_rank < 0 ? said.cause_known
                                : has_spoken(evidence.ranks, launch.first_rank)) {
        return said.ending;
      }
      return {RunStatus::kFailed, launch.reason + after_last_step(evidence.ranks),
              launch.first_rank};
    case LaunchOutcome::kExited:
      break;
  }
  if (said.cause_known) return said.ending;
  return {RunStatus::kFailed, "every rank exited with status 0, but " + said.ending.reason,
          said.ending.reason_rank};
}

// Judges an attempt if nobody saw its processes end.
Ending of_killed(const Evidence& evidence, const SaidByRanks& said) {
  const auto& [status, reason, rank] = said.ending;
  if (!evidence.of_job) {
    return {status, (said.cause_known ? "" : "the runner was killed; ") + reason, rank};
  }
  if (said.cause_known && status == RunStatus::kFailed) return said.ending;
  if (!evidence.task) {
    return {RunStatus::kUnknown, "Slurm does not know the job any more, and " + reason, rank};
  }
  return {RunStatus::kFailed, "the job ended as " + evidence.task->state + ", and " + reason, rank};
}

}  // namespace

Ending judge(const Evidence& evidence) {
  const SaidByRanks said = said_by_ranks(evidence.ranks);
  if (said.is_result()) return said.ending;
  if (evidence.was_requeued && !evidence.launch) {
    return cut_short(evidence, RunStatus::kNodeFailed, "the job was requeued without a word");
  }
  const EndOfTask* end = evidence.was_requeued ? nullptr : end_of(evidence.task);
  const bool is_of_any = end && end->status == RunStatus::kOutOfMemory && evidence.shared_memory;
  if (end && !is_of_any) return cut_short(evidence, end->status, end->reason);
  return evidence.launch ? as_seen(evidence, said) : of_killed(evidence, said);
}

Ending judge_without_attempt(const std::optional<TaskState>& task, const std::string& output) {
  if (!task) {
    return {RunStatus::kUnknown, "Slurm does not know the job any more, and the run did not start"};
  }
  if (const EndOfTask* end = end_of(task)) {
    const bool is_of_others = end->status == RunStatus::kOutOfMemory;  // this run used none
    return {is_of_others ? RunStatus::kFailed : end->status,
            std::string(end->reason) + " before the run started"};
  }
  return {RunStatus::kFailed,
          "the job ended as " + task->state + " before the run started; its output: " + output};
}

bool ranks_have_spoken(std::span<const RankEnd> ranks) {
  return said_by_ranks(ranks).is_result() ||
         std::ranges::none_of(
             ranks, [](RankEndKind kind) { return kind == RankEndKind::kNone; }, &RankEnd::kind);
}

bool is_to_restart(RunStatus status, int64_t in_a_row, int64_t max_restarts,
                   bool keeps_checkpoints) {
  if (!was_ended_by_cluster(status) || in_a_row > max_restarts) return false;
  return status != RunStatus::kTimeLimit || keeps_checkpoints;
}

}  // namespace fsdp
