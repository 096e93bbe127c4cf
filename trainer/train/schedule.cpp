// Computes a step's learning rate from its number alone.
#include "trainer/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fsdp {
namespace {

int64_t warmup_steps(const ScheduleSpec& spec, int64_t decay_steps) {
  if (!spec.warmup_ratio) return spec.warmup_steps;
  return static_cast<int64_t>(std::ceil(*spec.warmup_ratio * static_cast<double>(decay_steps)));
}

}  // namespace

LearningRateSchedule::LearningRateSchedule(double learning_rate, const ScheduleSpec& spec,
                                           int64_t steps, int64_t steps_per_epoch)
    : learning_rate_(learning_rate),
      spec_(spec),
      decay_steps_(spec.decay_steps.value_or(steps)),
      warmup_steps_(warmup_steps(spec, decay_steps_)),
      steps_per_epoch_(steps_per_epoch) {}

double LearningRateSchedule::learning_rate(int64_t step) const {
  const int64_t warmup = warmup_steps_;
  if (step <= warmup) {
    const int64_t from_one = spec_.warmup_from_zero ? 0 : 1;
    return learning_rate_ * static_cast<double>(step - 1 + from_one) /
           static_cast<double>(warmup + from_one);
  }
  const int64_t since_warmup = step - warmup - 1;
  const int64_t decay = std::max(decay_steps_ - warmup, int64_t{0});
  const double progress =
      since_warmup < decay ? static_cast<double>(since_warmup) / static_cast<double>(decay) : 1.0;
  const double range = learning_rate_ - spec_.min_learning_rate;
  switch (spec_.kind) {
    case ScheduleKind::kConstant:
      break;
    case ScheduleKind::kLinear:
      return learning_rate_ - range * progress;
    case ScheduleKind::kCosine:
      return spec_.min_learning_rate + range * (1 + std::cos(std::numbers::pi * progress)) / 2;
    case ScheduleKind::kStep: {
      const int64_t decays = since_warmup / spec_.step_size.value_or(steps_per_epoch_);
      return learning_rate_ * std::pow(spec_.gamma, static_cast<double>(decays));
    }
  }
  return learning_rate_;
}

}  // namespace fsdp
