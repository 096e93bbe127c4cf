#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "trainer/comm/process_group.h"

namespace fsdp {

// Dynamic loss scaling for float16, as torch.amp.GradScaler with its defaults (Micikevicius et al.
// 2018): the loss is multiplied by a scale that keeps small gradients from vanishing; gradients
// that are not finite halve it and leave out the step, and 2,000 steps in a row without any double
// it. The scale lives on the host and is the same on every rank.
class GradientScaler {
 public:
  // What a checkpoint keeps.
  struct State {
    double scale = 65536;
    int64_t steps_since_growth = 0;
  };

  double scale() const { return state_.scale; }

  // Divides this rank's gradients by the scale, in place, without waiting for the device. Returns,
  // on the gradients' device, 0-dimensional fp32: 1 where a gradient of any rank is not finite,
  // else 0. `group` communicates on `device`.
  at::Tensor unscale(const std::vector<at::Tensor>& gradients, ProcessGroup& group,
                     at::Device device) const;

  // Once per optimizer step, with what unscale() found, before the next step's loss is scaled.
  void update(bool found_non_finite);

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  State state_;
};

}  // namespace fsdp
