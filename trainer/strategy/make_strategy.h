#pragma once

#include <memory>

#include "trainer/comm/process_group.h"
#include "trainer/contract/run_spec.h"
#include "trainer/engine/strategy.h"
#include "trainer/strategy/shard_store.h"

namespace fsdp {

// How the strategy spreads parameters over the ranks of `group`, for the store it works on.
ShardStore::Options shard_store_options(const StrategySpec& spec, const ProcessGroup& group,
                                        const at::TensorOptions& tensor);

// The strategy `spec` names; store, streams and group outlive it.
std::unique_ptr<Strategy> make_strategy(const StrategySpec& spec, ShardStore& store,
                                        Streams& streams, ProcessGroup& group);

}  // namespace fsdp
