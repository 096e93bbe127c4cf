#pragma once

#include <memory>

#include "contract/spec/run_spec.h"
#include "trainer/comm/process_group.h"
#include "trainer/strategy/data_parallel.h"

namespace fsdp {

// This rank's shard group and replica group (see DataParallel).
class Mesh {
 public:
  // Makes the mesh of `spec` from the ranks of `world`, which outlives it. All ranks call it
  // together.
  Mesh(const StrategySpec& spec, ProcessGroup& world);

  // A group of this rank alone is null. But if `world` has one rank, fsdp has a shard group, and
  // ddp has a replica group.
  ProcessGroup* shard_group() const { return shard_group_; }
  // Has the same ranks as shard_group(). Its gathers do not wait for reductions in shard_group().
  ProcessGroup* gather_group() const { return gather_group_; }
  ProcessGroup* replica_group() const { return replica_group_; }
  int shard_count() const { return shard_group_ == nullptr ? 1 : shard_group_->size(); }
  int shard_index() const { return shard_group_ == nullptr ? 0 : shard_group_->rank(); }
  // True if this rank is the first, or the only one, that holds its part of the model.
  bool is_first_replica() const { return replica_group_ == nullptr || replica_group_->rank() == 0; }

 private:
  std::vector<std::unique_ptr<ProcessGroup>> owned_;
  ProcessGroup* shard_group_ = nullptr;
  ProcessGroup* gather_group_ = nullptr;
  ProcessGroup* replica_group_ = nullptr;
};

// Returns how the store spreads the run's parameters over the mesh.
ShardStore::Options shard_store_options(const RunSpec& spec, const Mesh& mesh);

// Store, streams and mesh outlive the strategy.
std::unique_ptr<Strategy> make_strategy(const RunSpec& spec, ShardStore& store, Streams& streams,
                                        const Mesh& mesh);

}  // namespace fsdp
