#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "trainer/comm/process_group.h"
#include "trainer/engine/strategy.h"
#include "trainer/kernels/work.h"
#include "trainer/strategy/precision.h"
#include "trainer/strategy/shard_store.h"

namespace fsdp {

// Data parallel training over a mesh of ranks. The ranks of a shard group share one copy of the
// model; the ranks of a replica group hold the same part of it. This class implements every
// strategy:
//
//                        shard group    replica group   whole between forward and backward
//   single               this rank      this rank       yes
//   ddp, no_shard        this rank      all             yes   (Li et al. 2020)
//   full_shard           all            this rank       no    (Zhao et al. 2023; ZeRO stage 3)
//   shard_grad_op        all            this rank       yes   (ZeRO stage 2)
//   hybrid_shard         some           one per group   no
//
// A unit's parameters are gathered over the shard group before its forward and again before its
// backward. If every rank owns them all, they are read in place, or converted once a step if the
// compute dtype differs. A unit's gradient is reduce-scattered over the shard group while the units
// before it run backward. At the last micro-batch, the result is all-reduced over the replica group
// and put into the store.
//
// At most 1 + prefetch units are whole at a time if units are gathered or come from the host. At
// most two whole gradients exist, except for shared units and accumulation of whole gradients.
class DataParallel : public Strategy {
 public:
  struct Options {
    Dtypes dtypes;
    bool reshard_after_forward = true;
    // True if a gather waits for the memory of the units released before it. Otherwise the device
    // holds that memory until it has passed its last use.
    bool limit_all_gathers = true;
    // With accumulation, keeps a shard of the gradient (sharded) instead of the whole one
    // (unsharded) until the last micro-batch.
    bool reduce_every_micro_batch = true;
  };
  // A group may be null if it is this rank alone. The gather group has the shard group's ranks. All
  // arguments outlive the strategy.
  DataParallel(ShardStore& store, Streams& streams, ProcessGroup* shard_group,
               ProcessGroup* gather_group, ProcessGroup* replica_group, const Options& options);

  bool reshard_after_forward() const override {
    return options_.reshard_after_forward && !is_kept_whole();
  }
  void begin_micro_batch(bool is_last) override { is_last_micro_batch_ = is_last; }
  void gather(int unit) override;
  void wait_whole(int unit) override;
  void release(int unit) override;
  Buffer whole_buffer(int unit) const override;
  void attach_gradient(int unit) override;
  void reduce(int unit) override;
  bool reduces_micro_batch() const override;
  void finish_backward() override;

 private:
  using Gradient = ShardStore::Gradient;
  // A unit's gathered values [numel], in memory of the gather stream. Undefined or empty if the
  // unit has no such values, or if they are read in place.
  struct Whole {
    at::Tensor trained;              // of the compute dtype
    std::vector<at::Tensor> frozen;  // as ShardStore::frozen()

    bool is_defined() const { return trained.defined() || !frozen.empty(); }
  };
  struct UnitState {
    Whole whole;
    std::vector<Pending> gathering;
    EventPtr gathered;
    at::Tensor gradient;  // [numel], of the gradients' dtype, from compute's pool
    // [shard_numel], of earlier micro-batches, in the wider dtype of gradients and parameters
    std::optional<Gradient> accumulated;
  };
  // A gradient's collective that is under way.
  struct Reduction {
    int unit;
    Gradient input;   // of a reduce-scatter, kept until it is done
    Gradient output;  // an all-reduce works on it in place
    Pending pending;
  };
  struct Released {
    int unit;
    Whole whole;
    EventPtr read;
  };

  // True if the trained values are read where the store keeps them.
  bool is_in_place() const;
  bool needs_gather(int unit) const;
  void gather_values(int unit, const at::Tensor& own, at::ScalarType dtype, at::Tensor& whole);
  // True if a whole unit stays whole until the last backward of the step. Its frozen values are
  // read where the store keeps them.
  bool is_kept_whole() const;
  void free_released();

  // Converts `gradient` to `dtype` on the compute stream. The result is the buffer `as`.
  Gradient convert(Gradient gradient, at::ScalarType dtype, Buffer as);
  // Adds `term` to `sum` on the compute stream. If there is no sum yet, `term` becomes the sum, as
  // the buffer `as`.
  void add_to(std::optional<Gradient>& sum, Gradient term, Buffer as);
  void drop(Gradient gradient, StreamId reader);

  Gradient take_whole_gradient(int unit);
  void reduce_scatter(int unit, Gradient whole);
  void wait(Reduction& reduction, TimePart part);
  void finish_reduce_scatter();
  void accumulate(int unit, Gradient shard);
  void replicate(int unit, Gradient shard);
  void finish_oldest_all_reduce();
  void put(int unit, Gradient gradient);

  ShardStore& store_;
  Streams& streams_;
  ProcessGroup* shard_group_;
  ProcessGroup* gather_group_;
  ProcessGroup* replica_group_;
  Options options_;
  bool is_last_micro_batch_ = true;
  std::vector<UnitState> units_;
  std::optional<Reduction> reduce_scatter_;
  std::deque<Reduction> all_reduces_;
  std::deque<Released> released_;
};

}  // namespace fsdp
