#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/comm/process_group.h"

namespace fsdp {

// Receives the statements of all ranks, in rank order. Returns the answer; empty if nothing is
// wrong.
using Judge = std::function<std::string(const std::vector<std::string>& said)>;

// Calls `judge` on rank 0 and returns its answer on every rank. `said` is this rank's statement
// about `subject`, which names one call in a run. The ranks only use the store, so it may be called
// before the first collective, where NCCL would fail or hang. If the answer is not empty, every
// rank may end at once. Throws CommunicationError.
std::string verdict_on(const std::string& subject, const std::string& said, ProcessGroup& group,
                       const Judge& judge);

}  // namespace fsdp
