#include "trainer/train/adamw.h"

namespace fsdp {

AdamW::AdamW(const OptimizerSpec& spec, const std::vector<at::Tensor>& parameters) : spec_(spec) {
  for (const at::Tensor& unit : parameters) {
    states_.push_back({.first_moment = at::zeros_like(unit),
                       .second_moment = at::zeros_like(unit),
                       .step = at::zeros({}, unit.options().dtype(at::kFloat))});
  }
}

void AdamW::step(int unit, const at::Tensor& parameters, const at::Tensor& gradient) {
  State& state = states_[unit];
  state.step.add_(1);
  at::_fused_adamw_({parameters}, {gradient}, {state.first_moment}, {state.second_moment}, {},
                    {state.step}, spec_.learning_rate, spec_.beta1, spec_.beta2, spec_.weight_decay,
                    spec_.epsilon, /*amsgrad=*/false, /*maximize=*/false);
}

}  // namespace fsdp
