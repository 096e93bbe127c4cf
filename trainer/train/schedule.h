#pragma once

#include <cstdint>

#include "contract/spec/run_spec.h"

namespace fsdp {

// The learning rate of each optimizer step; a pure function of the step's number, so that a resumed
// run needs nothing but that. A step that is left out for its non-finite gradients counts.
//
// With W warm-up steps of T, step s in 1..T has the rate that PyTorch's optimizer has before its
// s-th step under
//   SequentialLR(optimizer, [LinearLR(optimizer, 1 / (W + 1), 1, W), after], [W])
// (`after` alone when W is 0), each scheduler stepped once after every optimizer step, where
// `after` is, with R = T - W steps that remain after the warm-up and min = min_learning_rate:
//   constant  ConstantLR(optimizer, 1)
//   linear    LinearLR(optimizer, 1, min / learning_rate, R)
//   cosine    CosineAnnealingLR(optimizer, R, min)
//   step      StepLR(optimizer, step_size or the steps of an epoch, gamma)
// The first step after the warm-up has the whole rate. Linear and cosine would reach min at step
// T + 1, as in transformers' schedules: the last step is the last above it, so that with a min of 0
// no step is wasted. With decay_steps that stands for T, and the rate stays at min afterwards.
class LearningRateSchedule {
 public:
  LearningRateSchedule(double learning_rate, const ScheduleSpec& spec, int64_t steps,
                       int64_t steps_per_epoch);

  // The rate of optimizer step `step`, from 1.
  double learning_rate(int64_t step) const;

 private:
  double learning_rate_;
  ScheduleSpec spec_;
  int64_t decay_steps_;
  int64_t steps_per_epoch_;
};

}  // namespace fsdp
