#pragma once

#include <memory>

#include "contract/spec/run_spec.h"
#include "trainer/comm/process_group.h"
#include "trainer/strategy/data_parallel.h"

namespace fsdp {

// The groups with which this rank shares parameters and replicas.
class Mesh {
 public:
  // Makes the mesh that `spec` names over `world`, which outlives it; on all ranks at once.
  Mesh(const StrategySpec& spec, ProcessGroup& world);

  // Null for this rank alone, except that fsdp and ddp with one rank have the usual group.
  ProcessGroup* shard_group() const { return shard_group_; }
  // Has the same ranks as shard_group. Its gathers need not wait for reductions there.
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
