#pragma once

#include <cstdint>

namespace fsdp {

// Scales the loss dynamically for float16, as torch.amp.GradScaler does by default (Micikevicius et
// al. 2018). The scale keeps small gradients from vanishing. Non-finite gradients halve it and skip
// the step; 2,000 finite steps in a row double it. The scale is on the host, the same on every
// rank.
class GradientScaler {
 public:
  // The part that a checkpoint keeps.
  struct State {
    double scale = 65536;
    int64_t steps_since_growth = 0;
  };

  double scale() const { return state_.scale; }

  // Called once per optimizer step, before the next loss, with the same value on every rank.
  void update(bool found_non_finite);

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  State state_;
};

}  // namespace fsdp
