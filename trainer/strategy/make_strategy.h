#pragma once

#include <memory>

#include "contract/spec/run_spec.h"
#include "trainer/comm/process_group.h"
#include "trainer/strategy/data_parallel.h"

namespace fsdp {

// The groups that this rank shares parameters, and replicas, with.
class Mesh {
 public:
  // The mesh `spec` names over all the ranks of `world`, which outlives it. Every rank makes it at
  // the same time.
  Mesh(const StrategySpec& spec, ProcessGroup& world);

  // Null when it is this rank alone (but not for fsdp and ddp with one rank: there the group does
  // what it would do with more).
  ProcessGroup* shard_group() const { return shard_group_; }
  // Of the same ranks as shard_group, for gathers, which need not wait for reductions there.
  ProcessGroup* gather_group() const { return gather_group_; }
  ProcessGroup* replica_group() const { return replica_group_; }
  int shard_count() const { return shard_group_ == nullptr ? 1 : shard_group_->size(); }
  int shard_index() const { return shard_group_ == nullptr ? 0 : shard_group_->rank(); }
  // Whether this rank's part of the model is not another rank's as well, or it is the first of
  // them.
  bool is_first_replica() const { return replica_group_ == nullptr || replica_group_->rank() == 0; }

 private:
  std::vector<std::unique_ptr<ProcessGroup>> owned_;
  ProcessGroup* shard_group_ = nullptr;
  ProcessGroup* gather_group_ = nullptr;
  ProcessGroup* replica_group_ = nullptr;
};

// How the run's parameters are spread over the mesh, for the store that the strategy works on.
ShardStore::Options shard_store_options(const RunSpec& spec, const Mesh& mesh);

// Store, streams and mesh outlive the strategy.
std::unique_ptr<Strategy> make_strategy(const RunSpec& spec, ShardStore& store, Streams& streams,
                                        const Mesh& mesh);

}  // namespace fsdp
