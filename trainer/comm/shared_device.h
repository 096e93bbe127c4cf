#pragma once

#include <optional>
#include <string>
#include <utility>

#include "trainer/comm/process_group.h"

namespace fsdp {

// The first two ranks of the group that gave the same `device`, a text that no two devices share;
// the same answer on every rank. Ranks meet in the store alone, so this may come before the first
// collective, in which NCCL would fail or hang; with an answer every rank may end at once. Called
// once by each rank. Throws CommunicationError.
std::optional<std::pair<int, int>> ranks_that_share_a_device(ProcessGroup& group,
                                                             const std::string& device);

}  // namespace fsdp
