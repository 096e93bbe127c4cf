#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "trainer/contract/run_spec.h"

namespace fsdp {

// AdamW with decoupled weight decay (Loshchilov & Hutter 2019), the fused kernel of
// torch.optim.AdamW(fused=True). State has the parameters' dtype and lives beside them.
class AdamW {
 public:
  // `parameters`: one flat tensor per unit, where the optimizer works; only their sizes are kept.
  AdamW(const OptimizerSpec& spec, const std::vector<at::Tensor>& parameters);

  // One step of unit `unit`, in place.
  void step(int unit, const at::Tensor& parameters, const at::Tensor& gradient);

 private:
  struct State {
    at::Tensor first_moment;
    at::Tensor second_moment;
    at::Tensor step;  // 0-dimensional, fp32: steps done
  };
  OptimizerSpec spec_;
  std::vector<State> states_;
};

}  // namespace fsdp
