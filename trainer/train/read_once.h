#pragma once

#include "trainer/comm/process_group.h"
#include "trainer/strategy/shard_store.h"

namespace fsdp {

// `fill`, of which every rank of `replicas` needs the same values: each reads an equal part of them
// and gives it to the others, so that a file is read once and not once a rank. Calls are
// collective. `device`: the group's. The group outlives what is returned.
FillParameter read_once(FillParameter fill, ProcessGroup& replicas, at::Device device);

}  // namespace fsdp
