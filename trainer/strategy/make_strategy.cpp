#include "trainer/strategy/make_strategy.h"

#include <c10/util/Exception.h>

#include "trainer/strategy/fsdp.h"
#include "trainer/strategy/replicated.h"

namespace fsdp {

ShardStore::Options shard_store_options(const StrategySpec& spec, const ProcessGroup& group,
                                        const at::TensorOptions& tensor) {
  const bool is_sharded = spec.kind == StrategyKind::kFsdp;
  return {.tensor = tensor,
          .shard_count = is_sharded ? group.size() : 1,
          .shard_index = is_sharded ? group.rank() : 0,
          .offload_optimizer = spec.offload == Offload::kOptimizer};
}

std::unique_ptr<Strategy> make_strategy(const StrategySpec& spec, ShardStore& store,
                                        Streams& streams, ProcessGroup& group) {
  switch (spec.kind) {
    case StrategyKind::kSingle:
      return std::make_unique<ReplicatedStrategy>(store, streams, nullptr);
    case StrategyKind::kDdp:
      return std::make_unique<ReplicatedStrategy>(store, streams, &group);
    case StrategyKind::kFsdp:
      return std::make_unique<FsdpStrategy>(store, streams, group,
                                            spec.accumulate == Accumulate::kSharded);
  }
  TORCH_CHECK(false, "strategy.kind has no strategy");
}

}  // namespace fsdp
