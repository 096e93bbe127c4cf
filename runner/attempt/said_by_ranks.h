#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runner/store/run_status.h"

namespace fsdp {

// How an attempt ended.
struct Ending {
  RunStatus status = RunStatus::kUnknown;
  std::string reason;    // one line; empty when finished
  int reason_rank = -1;  // the rank whose log says more; -1: none
};

struct SaidByRanks {
  Ending ending;
  // Whether the ranks' own words explain the end. False when there are only communication errors,
  // which follow from another rank's death, or silence: a launcher that saw the processes end knows
  // more.
  bool cause_known = false;
  std::optional<int64_t> ended_unix_ms{};  // of the last event of any rank

  // Whether they ran to a result, which outranks whatever became of their processes.
  bool is_result() const {
    return ending.status == RunStatus::kFinished || ending.status == RunStatus::kOutOfMemory;
  }
};

// How an attempt whose processes are all gone ended, from its ranks' last events alone; one entry
// per rank. In this order: finished when all ranks finished and none misses a step, else, when all
// say so, failed; out_of_memory when any rank ran out; failed, by the earliest failure that is not
// a communication error; else by what came first, interrupted (a rank was asked to stop) or failed
// (a communication error); else interrupted.
SaidByRanks said_by_ranks(std::span<const RankEnd> ranks);

}  // namespace fsdp
