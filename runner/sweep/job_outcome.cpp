#include "runner/sweep/job_outcome.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "runner/slurm/complaints.h"

namespace fsdp {
namespace {

struct EndOfTask {
  std::string_view state;
  RunStatus status;
  std::string_view reason;
};

// The states that say more than that the batch script came to its end.
constexpr std::array kEnds{
    EndOfTask{"OUT_OF_MEMORY", RunStatus::kOutOfMemory, kMemoryLimitReached},
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

AttemptOutcome as_the_job_says(const JobAttemptFacts& facts) {
  const JobAttemptEnd& end = *facts.end;
  std::string reason = end.reason;
  if (reason.empty() && end.outcome == LaunchOutcome::kTimeLimit) {
    reason = "the job's time limit (slurm.time) came near";
  } else if (reason.empty() && end.outcome == LaunchOutcome::kInterrupted) {
    reason = "the job was told to stop";
  }
  return attempt_outcome(
      {.outcome = end.outcome, .reason = std::move(reason), .first_rank = end.first_rank},
      facts.ranks);
}

AttemptOutcome requeued(const JobAttemptFacts& facts) {
  const std::string after = after_last_step(facts.ranks);
  if (!facts.end) return {RunStatus::kNodeFailed, "the job was requeued without a word" + after};
  switch (facts.end->outcome) {
    case LaunchOutcome::kTimeLimit:
      return {RunStatus::kTimeLimit, "the job's time limit (slurm.time) came near" + after};
    case LaunchOutcome::kInterrupted:
      return {RunStatus::kPreempted, "another job took the nodes" + after};
    default:
      return as_the_job_says(facts);
  }
}

bool has_result(RunStatus status) {
  return status == RunStatus::kFinished || status == RunStatus::kOutOfMemory;
}

}  // namespace

AttemptOutcome job_attempt_outcome(const JobAttemptFacts& facts) {
  const AttemptEnd said = status_from_events(facts.ranks);
  const AttemptOutcome as_said{said.status, said.reason, said.reason_rank};
  if (has_result(said.status)) return as_said;
  if (facts.was_requeued) return requeued(facts);
  if (const EndOfTask* end = end_of(facts.task)) {
    return {end->status, std::string(end->reason) + after_last_step(facts.ranks)};
  }
  if (facts.end) return as_the_job_says(facts);
  if (said.cause_known && said.status == RunStatus::kFailed) return as_said;
  if (!facts.task) {
    return {RunStatus::kUnknown, "Slurm does not know the job any more, and " + said.reason,
            said.reason_rank};
  }
  return {RunStatus::kFailed, "the job ended as " + facts.task->state + ", and " + said.reason,
          said.reason_rank};
}

bool ranks_have_spoken(std::span<const RankEnd> ranks) {
  return has_result(status_from_events(ranks).status) ||
         std::ranges::none_of(
             ranks, [](RankEndKind kind) { return kind == RankEndKind::kNone; }, &RankEnd::kind);
}

AttemptOutcome outcome_without_attempt(const std::optional<TaskState>& task,
                                       const std::string& output) {
  if (!task) {
    return {RunStatus::kUnknown, "Slurm does not know the job any more, and the run did not start"};
  }
  if (const EndOfTask* end = end_of(task)) {
    return {end->status, std::string(end->reason) + " before the run started"};
  }
  return {RunStatus::kFailed,
          "the job ended as " + task->state + " before the run started; its output: " + output};
}

bool never_started(const std::optional<TaskState>& task) { return task && task->node_list.empty(); }

bool was_ended_by_cluster(RunStatus status) {
  return status == RunStatus::kPreempted || status == RunStatus::kNodeFailed ||
         status == RunStatus::kTimeLimit;
}

bool is_to_restart(RunStatus status, int64_t in_a_row, int64_t max_restarts,
                   bool keeps_checkpoints) {
  if (!was_ended_by_cluster(status) || in_a_row > max_restarts) return false;
  return status != RunStatus::kTimeLimit || keeps_checkpoints;
}

}  // namespace fsdp
