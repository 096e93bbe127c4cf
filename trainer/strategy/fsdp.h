#pragma once

#include <optional>
#include <vector>

#include "trainer/comm/process_group.h"
#include "trainer/engine/strategy.h"
#include "trainer/strategy/shard_store.h"

namespace fsdp {

// Fully sharded data parallel, FULL_SHARD (Zhao et al. 2023, "PyTorch FSDP"; ZeRO stage 3): a
// unit's parameters are gathered before its forward and again before its backward and freed after
// each; its gradient is reduce-scattered while the units before it run backward.
//
// At most two units are whole and, unless micro-batches accumulate whole gradients, two whole
// gradients exist at a time, but for shared units.
class FsdpStrategy : public Strategy {
 public:
  // `reduce_every_micro_batch`: with accumulation, keep a shard of the gradient (sharded) rather
  // than the whole one until the last micro-batch (unsharded). Everything outlives the strategy.
  FsdpStrategy(ShardStore& store, Streams& streams, ProcessGroup& group,
               bool reduce_every_micro_batch);

  void begin_micro_batch(bool is_last) override { is_last_micro_batch_ = is_last; }
  void gather(int unit) override;
  void wait_whole(int unit) override;
  void release(int unit) override;
  Buffer whole_buffer(int unit) const override { return {BufferKind::kWhole, unit}; }
  void attach_gradient(int unit) override;
  void reduce(int unit) override;
  void finish_backward() override;

 private:
  struct Unit {
    at::Tensor whole;  // [numel], from gather's pool
    Pending gathering;
    EventPtr gathered;
    at::Tensor gradient;     // [numel], from compute's pool
    at::Tensor accumulated;  // [shard_numel], of the micro-batches before, from reduce's pool
  };
  struct Reduction {
    int unit;
    at::Tensor shard;  // [shard_numel], from reduce's pool
    Pending pending;
    EventPtr reduced;
  };
  void finish_reduction();
  void accumulate(int unit, at::Tensor shard, EventPtr ready);

  ShardStore& store_;
  Streams& streams_;
  ProcessGroup& group_;
  bool reduce_every_micro_batch_;
  bool is_last_micro_batch_ = true;
  std::vector<Unit> units_;
  std::optional<Reduction> reduction_;  // the one on its way
};

}  // namespace fsdp
