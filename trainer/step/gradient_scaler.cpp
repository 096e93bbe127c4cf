#include "trainer/step/gradient_scaler.h"

#include <cmath>

#include "trainer/kernels/launch.h"

namespace fsdp {
namespace {

constexpr double kGrowth = 2;
constexpr double kBackoff = 0.5;
constexpr int64_t kGrowthInterval = 2000;

}  // namespace

at::Tensor GradientScaler::unscale(const std::vector<at::Tensor>& gradients, ProcessGroup& group,
                                   at::Device device) const {
  const at::Device own = gradients.front().device();
  const auto options = at::TensorOptions(at::kFloat).device(own);
  at::Tensor found = at::zeros({}, options);
  const at::Tensor reciprocal_scale = at::full({}, 1 / state_.scale, options);
  launch("unscale", gradients, gradients, [&] {
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, reciprocal_scale);
  });
  found = found.to(device);
  group.all_reduce(found).wait();
  return found.clamp_max(1).to(own);
}

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
