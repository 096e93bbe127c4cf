#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "runner/store/run_status.h"

namespace fsdp {

struct Ending {
  RunStatus status = RunStatus::kUnknown;
  std::string reason;    // one line; empty when finished
  int reason_rank = -1;  // the rank with the log that tells more; -1: none
};

struct SaidByRanks {
  Ending ending;
  // True if the ranks' own reports explain the end. False if there are only communication errors,
  // which follow from another rank's death, or no reports. A launcher that saw the processes end
  // knows more.
  bool cause_known = false;
  std::optional<int64_t> ended_unix_ms{};  // of the last event of any rank

  // True if the ranks ran to a result. A result outranks the exits of their processes.
  bool is_result() const {
    return ending.status == RunStatus::kFinished || ending.status == RunStatus::kOutOfMemory;
  }
};

// Returns how an attempt without running processes ended, from its ranks' last events alone.
// `ranks` has one entry per rank. The first of these decides:
//   1. All ranks finished: finished, or failed if a rank misses steps.
//   2. A rank ran out of memory: out_of_memory.
//   3. A rank failed, not by a communication error: failed, for the earliest failure.
//   4. The earlier of two decides: a request to stop (interrupted), a communication error (failed).
//   5. Otherwise: interrupted.
SaidByRanks said_by_ranks(std::span<const RankEnd> ranks);

}  // namespace fsdp
