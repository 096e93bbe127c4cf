#pragma once

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "contract/spec/run_spec.h"

namespace fsdp {

// Steps flat parameters, unit by unit, as torch.optim's AdamW, Adam, SGD and Adadelta do.
//
// State lives beside the parameters, in optimizer.state_dtype or else in their dtype, and is
// allocated from the start. Where the two dtypes differ, a step computes in the wider one, block by
// block, and rounds to nearest what it writes back. Different units may be stepped from different
// threads, one at a time.
class Optimizer {
 public:
  // `parameters`: one flat tensor per unit; only their sizes, dtypes and devices are kept.
  Optimizer(const OptimizerSpec& spec, const std::vector<at::Tensor>& parameters);

  // One step of unit `unit`, in place, on the current stream. `gradient`: as the parameters in
  // size, dtype and device; read only. `found_non_finite`: undefined, or 0-dimensional fp32 on the
  // parameters' device; where it is not 0, parameters, state and the number of steps stay as they
  // are, which is decided on the device without waiting for it.
  void step(int unit, const at::Tensor& parameters, const at::Tensor& gradient,
            double learning_rate, const at::Tensor& found_non_finite = {});

  // What a checkpoint keeps of a unit: names as in PyTorch's optimizer state, and flat tensors of
  // the unit's size, which loading writes into. Empty for sgd without momentum.
  std::vector<std::pair<std::string, at::Tensor>> state(int unit) const;

  // Steps done without those left out, for the bias correction; the same for all units between
  // optimizer steps. Waits for the device.
  double steps() const;
  void set_steps(double steps);

 private:
  struct UnitState {
    std::vector<at::Tensor> tensors;
    at::Tensor steps;  // 0-dimensional, fp32
  };

  OptimizerSpec spec_;
  std::vector<std::string> state_names_;
  std::vector<UnitState> units_;
};

}  // namespace fsdp
