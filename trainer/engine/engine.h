#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <span>
#include <vector>

#include "trainer/backend/streams.h"
#include "trainer/backend/work.h"
#include "trainer/engine/strategy.h"
#include "trainer/engine/units.h"
#include "trainer/model/model.h"

namespace fsdp {

// Walks the units of a model forward and backward; the one place where their order, gather-ahead
// and activation checkpointing are decided. There is no autograd: each module leaves a tape, which
// is run in reverse on the calling thread.
class Engine {
 public:
  struct Options {
    // 0 keeps every block's activations; K recomputes those of every K-th block (Chen et al. 2016,
    // "Training Deep Nets with Sublinear Memory Cost"), or of a part of it.
    int64_t checkpoint_every = 0;
    CheckpointedPart checkpointed = CheckpointedPart::kBlock;
    // How many units ahead of the one that computes are gathered; as many stay whole between
    // forward and backward, which begins with them.
    int64_t prefetch = 1;
  };
  // Everything outlives the engine.
  Engine(const Model& model, std::span<const Unit> units, Strategy& strategy, Streams& streams,
         Kernels& kernels, const Options& options);

  // One optimizer step's forward and backward over its micro-batches. Calls `at_forward_end` after
  // the last micro-batch's forward. Returns the loss summed over the micro-batches of this rank,
  // 0-dimensional, fp32.
  at::Tensor forward_backward(std::span<const Batch> micro_batches,
                              const std::function<void()>& at_forward_end);

  // Forward alone, without gradients: [2], fp32, the batch's loss and how many of its labels were
  // the most likely token.
  at::Tensor evaluate(const Batch& batch);

 private:
  // What a module leaves between its forward and its backward.
  struct Kept {
    Tape tape{Tape::Mode::kNoGradients};
    // Of a module that is recomputed: the activations before and after its forward, the latter for
    // their gradients.
    Activations before;
    Activations after;
  };

  at::Tensor forward(const Batch& batch);
  void backward(const Batch& batch);
  void forward_module(int module, int unit, const Batch& batch, Activations& activations);
  void backward_module(int module, int unit, const Batch& batch);
  void recompute(int module, int unit, const Batch& batch);
  void run_module(int module, int unit, const Batch& batch, Tape& tape, Activations& activations);
  Work work_of(int module, const char* pass, const Batch& batch) const;
  // Starts to gather `unit` and those that come after it when going by `direction`, +1 or -1.
  void gather_ahead(int unit, int direction);

  int unit_count() const { return static_cast<int>(units_.size()); }
  // Whether nothing of it is kept but what it reads.
  bool is_recomputed(int module) const {
    return is_checkpointed_[module] && options_.checkpointed == CheckpointedPart::kBlock;
  }
  bool is_last_module(int module) const {
    return module + 1 == static_cast<int>(model_.modules.size());
  }

  const Model& model_;
  std::span<const Unit> units_;
  Strategy& strategy_;
  Streams& streams_;
  Kernels& kernels_;
  Options options_;
  std::vector<bool> is_checkpointed_;  // by module
  std::vector<Kept> kept_;             // by module; of the micro-batch under way
};

}  // namespace fsdp
