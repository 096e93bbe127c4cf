#pragma once

#include <optional>
#include <string>
#include <utility>

#include "trainer/comm/process_group.h"

namespace fsdp {

// Returns the first two ranks of the group with the same `device`, a text that is unique to a
// device. Every rank gets the same answer. The ranks only use the store, so it may be called before
// the first collective, where NCCL would fail or hang. If there is an answer, every rank may end at
// once. Each rank calls it once. Throws CommunicationError.
std::optional<std::pair<int, int>> ranks_that_share_a_device(ProcessGroup& group,
                                                             const std::string& device);

}  // namespace fsdp
