#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/comm/process_group.h"

namespace fsdp {

// Rank 0's answer to what all ranks said, in the order of ranks; empty: nothing is wrong.
using Judge = std::function<std::string(const std::vector<std::string>& said)>;

// Calls `judge` on rank 0 and returns its answer on every rank. `said` is what this rank says about
// `subject`, which names one call in a run. Ranks meet in the store alone, so this may come before
// the first collective, in which NCCL would fail or hang. If the answer is not empty, every rank
// may end at once. Throws CommunicationError.
std::string verdict_on(const std::string& subject, const std::string& said, ProcessGroup& group,
                       const Judge& judge);

}  // namespace fsdp
