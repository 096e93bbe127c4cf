// Divides the ranks into shard and replica groups, for every strategy.
#include "trainer/strategy/make_strategy.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "trainer/kernels/state_block.h"

namespace fsdp {
namespace {

bool is_sharded(const StrategySpec& spec) {
  return spec.kind == StrategyKind::kFsdp && spec.sharding != Sharding::kNoShard;
}

// Returns the number of ranks in a shard group. Its ranks are consecutive.
int shard_group_size(const StrategySpec& spec, int world_size) {
  if (!is_sharded(spec)) return 1;
  if (spec.sharding == Sharding::kHybridShard) return static_cast<int>(*spec.shard_group_size);
  return world_size;
}

// True if the gradients of all units are needed before the first unit is stepped.
bool needs_all_gradients(const RunSpec& spec) {
  return spec.optimizer.gradient_clip_norm || spec.train.report_gradient_norm ||
         spec.precision.kind == PrecisionKind::kFp16Mixed ||
         spec.train.on_non_finite == OnNonFinite::kSkip;
}

int64_t narrowest_bytes(const Dtypes& dtypes) {
  return static_cast<int64_t>(
      std::min({c10::elementSize(dtypes.parameters), c10::elementSize(dtypes.compute),
                c10::elementSize(dtypes.gradients), c10::elementSize(dtypes.reduction)}));
}

}  // namespace

Mesh::Mesh(const StrategySpec& spec, ProcessGroup& world) {
  const int shards = shard_group_size(spec, world.size());
  const int replicas = world.size() / shards;
  const int shard_index = world.rank() % shards;
  const int replica_index = world.rank() / shards;
  const auto group = [&](const std::string& name, int size, int first,
                         int stride) -> ProcessGroup* {
    if (size == world.size()) return &world;
    if (size == 1) return nullptr;
    std::vector<int> ranks;
    for (int i = 0; i < size; ++i) ranks.push_back(first + i * stride);
    return owned_.emplace_back(world.subgroup(name, ranks)).get();
  };
  if (is_sharded(spec)) shard_group_ = group("shard", shards, replica_index * shards, 1);
  gather_group_ = shard_group_;
  if (shard_group_ != nullptr) {
    if (auto beside = shard_group_->beside("gather")) {
      gather_group_ = owned_.emplace_back(std::move(beside)).get();
    }
  }
  if (replicas > 1 || (!is_sharded(spec) && spec.kind != StrategyKind::kSingle)) {
    replica_group_ = group("replica", replicas, shard_index, shards);
  }
}

ShardStore::Options shard_store_options(const RunSpec& spec, const Mesh& mesh) {
  const Dtypes dtypes = dtypes_of(spec.precision);
  const bool is_offloaded = spec.strategy.offload != Offload::kNone;
  return {.dtype = dtypes.parameters,
          .frozen_dtype = dtypes.compute,
          .item_bytes = narrowest_bytes(dtypes),
          .block = spec.optimizer.state_dtype == StateDtype::kInt8 ? kStateBlock : 1,
          .shard_count = mesh.shard_count(),
          .shard_index = mesh.shard_index(),
          .offload = spec.strategy.offload,
          .step_on_arrival =
              spec.optimizer.in_backward || (is_offloaded && !needs_all_gradients(spec))};
}

std::unique_ptr<Strategy> make_strategy(const RunSpec& spec, ShardStore& store, Streams& streams,
                                        const Mesh& mesh) {
  const bool is_resharded = spec.strategy.sharding != Sharding::kShardGradOp;
  return std::make_unique<DataParallel>(
      store, streams, mesh.shard_group(), mesh.gather_group(), mesh.replica_group(),
      DataParallel::Options{
          .dtypes = dtypes_of(spec.precision),
          .reshard_after_forward = is_resharded,
          .limit_all_gathers = spec.strategy.limit_all_gathers,
          .reduce_every_micro_batch = spec.strategy.accumulate == Accumulate::kSharded});
}

}  // namespace fsdp
