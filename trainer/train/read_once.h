#pragma once

#include "trainer/comm/process_group.h"
#include "trainer/strategy/shard_store.h"

namespace fsdp {

// Wraps `fill` for the ranks of `replicas`, which need the same values. Each rank reads an equal
// part of a large parameter, and gets the rest from the others. Calls are collective. `device` is
// the device of `replicas`, which outlives the result.
FillParameter read_once(FillParameter fill, ProcessGroup& replicas, at::Device device);

}  // namespace fsdp
