#pragma once

#include <deque>
#include <vector>

#include "trainer/comm/process_group.h"
#include "trainer/engine/strategy.h"
#include "trainer/strategy/shard_store.h"

namespace fsdp {

// Every rank owns all parameters: one process, or distributed data parallel (Li et al. 2020,
// "PyTorch Distributed") with one bucket per unit, its all-reduce overlapped with the rest of
// backward, at the last micro-batch only.
class ReplicatedStrategy : public Strategy {
 public:
  // `group` is null for one process. Everything outlives the strategy.
  ReplicatedStrategy(ShardStore& store, Streams& streams, ProcessGroup* group);

  void begin_micro_batch(bool is_last) override { is_last_micro_batch_ = is_last; }
  void gather(int) override {}
  void wait_whole(int unit) override;
  void release(int) override {}
  Buffer whole_buffer(int unit) const override { return {BufferKind::kParameters, unit}; }
  void attach_gradient(int unit) override;
  void reduce(int unit) override;
  void finish_backward() override;

 private:
  struct Reduction {
    int unit;
    Pending pending;
    EventPtr reduced;
  };
  void finish_oldest_reduction();
  void put_gradient(int unit, EventPtr ready);

  ShardStore& store_;
  Streams& streams_;
  ProcessGroup* group_;
  bool is_last_micro_batch_ = true;
  std::vector<at::Tensor> gradients_;  // by unit, [numel]
  std::deque<Reduction> reductions_;
};

}  // namespace fsdp
