// Grows and shrinks the scale of float16's loss as torch.amp does.
#include "trainer/step/gradient_scaler.h"

#include <cmath>

namespace fsdp {
namespace {

constexpr double kGrowth = 2;
constexpr double kBackoff = 0.5;
constexpr int64_t kGrowthInterval = 2000;

}  // namespace

void GradientScaler::update(bool found_non_finite) {
  if (found_non_finite) {
    state_ = {.scale = state_.scale * kBackoff, .steps_since_growth = 0};
  } else if (++state_.steps_since_growth == kGrowthInterval) {
    state_.steps_since_growth = 0;
    const double grown = state_.scale * kGrowth;
    if (std::isfinite(static_cast<float>(grown))) state_.scale = grown;
  }
}

}  // namespace fsdp
