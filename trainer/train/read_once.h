#pragma once

#include "trainer/comm/process_group.h"
#include "trainer/strategy/shard_store.h"

namespace fsdp {

// Wraps `fill` so that a file is read once, and not once per rank, for ranks of `replicas` that
// need the same values. Each rank reads an equal part and gives it to the others. Calls are
// collective. `device` is the group's. The group outlives the result.
FillParameter read_once(FillParameter fill, ProcessGroup& replicas, at::Device device);

}  // namespace fsdp
