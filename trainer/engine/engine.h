#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <span>
#include <vector>

#include "trainer/backend/streams.h"
#include "trainer/engine/strategy.h"
#include "trainer/engine/units.h"
#include "trainer/kernels/work.h"
#include "trainer/model/model.h"

namespace fsdp {

// Walks the units of a model forward and backward. It alone decides their order, gather-ahead and
// activation checkpointing. There is no autograd: each module leaves a tape, which is run in
// reverse on the calling thread.
class Engine {
 public:
  struct Options {
    // 0 keeps every block's activations. K recomputes the activations of every K-th block, or of a
    // part of it (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
    int64_t checkpoint_every = 0;
    CheckpointedPart checkpointed = CheckpointedPart::kBlock;
    // The number of units that are gathered ahead of the one that computes. Backward begins with
    // the last unit and as many units before it, so these stay whole after forward.
    int64_t prefetch = 1;
  };
  // All arguments outlive the engine.
  Engine(const Model& model, std::span<const Unit> units, Strategy& strategy, Streams& streams,
         Kernels& kernels, const Options& options);

  // Does one optimizer step's forward and backward over its micro-batches. Calls `at_forward_end`
  // after the last micro-batch's forward. Returns the loss summed over this rank's micro-batches,
  // 0-dimensional, fp32.
  at::Tensor forward_backward(std::span<const Batch> micro_batches,
                              const std::function<void()>& at_forward_end);

  // Does the forward alone, without gradients. Returns [2], fp32: the batch's loss, and the number
  // of its labels that were the most likely token.
  at::Tensor evaluate(const Batch& batch);

 private:
  // The data that a module keeps between its forward and its backward.
  struct Kept {
    Tape tape{Tape::Mode::kNoGradients};
    // For a recomputed module, the activations before and after its forward. `after` keeps only the
    // gradients, without values.
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
  // Runs `work` on the compute stream. The work reads the unit's values.
  void compute(int unit, bool writes_gradient, const std::function<void()>& work);
  // Starts to gather `unit` and the units after it in `direction`, +1 or -1.
  void gather_ahead(int unit, int direction);

  int unit_count() const { return static_cast<int>(units_.size()); }
  // True if only the module's inputs are kept.
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
  std::vector<bool> is_trained_;       // by unit
  int first_trained_unit_ = 0;         // units before it have no backward
  std::vector<Kept> kept_;             // by module; of the current micro-batch
};

}  // namespace fsdp
