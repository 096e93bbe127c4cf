#pragma once

#include <cstdint>

#include "contract/spec/run_spec.h"

namespace fsdp {

// Computes the learning rate of each optimizer step. It depends only on the step's number, so a
// resumed run needs nothing else. A step that is skipped for non-finite gradients counts.
//
// With W warm-up steps of T, step s in 1..T has the rate that PyTorch's optimizer has before its
// s-th step under
//   SequentialLR(optimizer, [LinearLR(optimizer, 1 / (W + 1), 1, W), after], [W])
// With warmup_from_zero, the warm-up has (s - 1) / W of the rate, as transformers' schedules. Only
// `after` counts if W is 0. Each scheduler is stepped once after every optimizer step.
// `after` is, with R = T - W steps after the warm-up and min = min_learning_rate:
//   constant  ConstantLR(optimizer, 1)
//   linear    LinearLR(optimizer, 1, min / learning_rate, R)
//   cosine    CosineAnnealingLR(optimizer, R, min)
//   step      StepLR(optimizer, step_size or the steps of an epoch, gamma)
// The first step after the warm-up has the whole rate. Linear and cosine would reach min at step
// T + 1, as in transformers' schedules. The last step is the last one above min, so a min of 0
// wastes no step. With decay_steps, T is that number, and the rate then stays at min.
class LearningRateSchedule {
 public:
  LearningRateSchedule(double learning_rate, const ScheduleSpec& spec, int64_t steps,
                       int64_t steps_per_epoch);

  // Returns the rate of optimizer step `step`, counted from 1.
  double learning_rate(int64_t step) const;

 private:
  double learning_rate_;
  ScheduleSpec spec_;
  int64_t decay_steps_;
  int64_t warmup_steps_;
  int64_t steps_per_epoch_;
};

}  // namespace fsdp
