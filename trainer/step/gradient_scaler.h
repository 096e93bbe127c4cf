#pragma once

#include <cstdint>

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

  // Once per optimizer step, before the next step's loss is scaled. Every rank says the same.
  void update(bool found_non_finite);

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

 private:
  State state_;
};

}  // namespace fsdp
