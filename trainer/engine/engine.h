#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <span>
#include <vector>

#include "trainer/engine/strategy.h"
#include "trainer/engine/streams.h"
#include "trainer/model/model.h"

namespace fsdp {

// Walks the units of a model forward and backward; the one place where their order, gather-ahead
// and activation checkpointing are decided. There are no autograd hooks: each unit's graph starts
// at its detached input and is run by itself.
class Engine {
 public:
  // `checkpoint_every`: 0 keeps every block's activations; K recomputes those of every K-th block
  // (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
  Engine(const Model& model, Strategy& strategy, Streams& streams, int64_t checkpoint_every);

  // One optimizer step's forward and backward over its micro-batches. Calls `at_forward_end` after
  // the last micro-batch's forward. Returns the loss summed over the micro-batches of this rank,
  // 0-dimensional, fp32.
  at::Tensor forward_backward(std::span<const Batch> micro_batches,
                              const std::function<void()>& at_forward_end);

 private:
  at::Tensor forward(const Batch& batch);
  void backward(const Batch& batch);
  at::Tensor run_unit(int unit, const Batch& batch);
  bool is_last(int unit) const { return unit + 1 == static_cast<int>(model_.units.size()); }

  const Model& model_;
  Strategy& strategy_;
  Streams& streams_;
  std::vector<bool> is_checkpointed_;
  // Of the micro-batch between its forward and its backward, by unit:
  std::vector<at::Tensor> inputs_;   // detached; require a gradient
  std::vector<at::Tensor> outputs_;  // undefined when recomputed
};

}  // namespace fsdp
