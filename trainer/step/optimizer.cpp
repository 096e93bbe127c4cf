#include "trainer/step/optimizer.h"

#include <algorithm>
#include <optional>

#include "trainer/kernels/launch.h"
#include "trainer/strategy/precision.h"

namespace fsdp {
namespace {

// Elements that are stepped at a time where a step needs memory of its own: on the CPU they stay in
// the cache, on a GPU they keep it busy.
constexpr int64_t kBlockCpu = 1 << 18;
constexpr int64_t kBlockCuda = 1 << 22;

// One step of one unit. `number` counts it already; `skip`, 0-dimensional fp32, is 0 or 1.
struct Step {
  const OptimizerSpec& spec;
  double learning_rate;
  at::Tensor number;
  std::optional<at::Tensor> skip;
};

// A unit or a block of it; all of one dtype when it is stepped.
struct Operands {
  at::Tensor parameters;
  at::Tensor gradient;
  std::vector<at::Tensor> state;
};

std::vector<std::string> state_names(const OptimizerSpec& spec) {
  switch (spec.kind) {
    case OptimizerKind::kAdamW:
    case OptimizerKind::kAdam:
      return {"exp_avg", "exp_avg_sq"};
    case OptimizerKind::kSgd:
      if (spec.momentum == 0) return {};
      return {"momentum_buffer"};
    case OptimizerKind::kAdadelta:
      return {"square_avg", "acc_delta"};
  }
  TORCH_CHECK(false, "not an optimizer");
}

void adam(const Step& step, const Operands& operands) {
  using Fused =
      void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
               at::TensorList, double, double, double, double, double, bool, bool,
               const std::optional<at::Tensor>&, const std::optional<at::Tensor>&);
  const OptimizerSpec& spec = step.spec;
  const Fused fused =
      spec.kind == OptimizerKind::kAdamW ? Fused(at::_fused_adamw_) : Fused(at::_fused_adam_);
  const auto& [parameters, gradient, state] = operands;
  launch("fused_adam", {parameters, gradient, state[0], state[1]}, {parameters, state[0], state[1]},
         [&] {
           fused({parameters}, {gradient}, {state[0]}, {state[1]}, /*max_exp_avg_sqs=*/{},
                 {step.number}, step.learning_rate, spec.beta1, spec.beta2, spec.weight_decay,
                 spec.epsilon, /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/{}, step.skip);
         });
}

// State of 0 does as a first step does, as there is no dampening.
void sgd(const Step& step, const Operands& operands) {
  const auto& [parameters, gradient, state] = operands;
  launch("fused_sgd", {parameters, gradient}, {parameters}, [&] {
    at::_fused_sgd_({parameters}, {gradient}, state, step.spec.weight_decay, step.spec.momentum,
                    step.learning_rate, /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false,
                    /*is_first_step=*/false, /*grad_scale=*/{}, step.skip);
  });
}

// torch/optim/adadelta.py, _single_tensor_adadelta.
void adadelta(const Step& step, const Operands& operands) {
  const double rho = step.spec.rho;
  const double epsilon = step.spec.epsilon;
  const at::Tensor& parameters = operands.parameters;
  const at::Tensor& square_average = operands.state[0];
  const at::Tensor& accumulated_delta = operands.state[1];
  at::Tensor gradient = operands.gradient;
  if (step.spec.weight_decay != 0) gradient = gradient.add(parameters, step.spec.weight_decay);

  square_average.mul_(rho).addcmul_(gradient, gradient, 1 - rho);
  at::Tensor delta = accumulated_delta.add(epsilon).sqrt_();
  delta.div_(square_average.add(epsilon).sqrt_()).mul_(gradient);
  accumulated_delta.mul_(rho).addcmul_(delta, delta, 1 - rho);
  parameters.add_(delta, -step.learning_rate);
}

// Adadelta by way of a copy, as its operations cannot be left out on the device's word.
void adadelta_unless_skipped(const Step& step, const Operands& operands) {
  Operands updated{operands.parameters.clone(), operands.gradient, {}};
  for (const at::Tensor& tensor : operands.state) updated.state.push_back(tensor.clone());
  adadelta(step, updated);
  const at::Tensor skip = step.skip->to(at::kBool);
  const auto keep = [&](const at::Tensor& tensor, const at::Tensor& update) {
    tensor.copy_(at::where(skip, tensor, update));
  };
  keep(operands.parameters, updated.parameters);
  for (size_t i = 0; i < updated.state.size(); ++i) keep(operands.state[i], updated.state[i]);
}

void update(const Step& step, const Operands& operands) {
  switch (step.spec.kind) {
    case OptimizerKind::kAdamW:
    case OptimizerKind::kAdam:
      return adam(step, operands);
    case OptimizerKind::kSgd:
      return sgd(step, operands);
    case OptimizerKind::kAdadelta:
      if (step.skip) return adadelta_unless_skipped(step, operands);
      return adadelta(step, operands);
  }
}

// Steps `size` elements from `start` on in `dtype`; what has another one is converted there and
// back.
void update_block(const Step& step, const Operands& whole, int64_t start, int64_t size,
                  at::ScalarType dtype) {
  const auto part = [&](const at::Tensor& tensor) { return tensor.narrow(0, start, size); };
  Operands block{part(whole.parameters).to(dtype), part(whole.gradient).to(dtype), {}};
  for (const at::Tensor& tensor : whole.state) block.state.push_back(part(tensor).to(dtype));
  update(step, block);
  const auto write_back = [&](const at::Tensor& tensor, const at::Tensor& updated) {
    if (tensor.scalar_type() != dtype) part(tensor).copy_(updated);
  };
  write_back(whole.parameters, block.parameters);
  for (size_t i = 0; i < block.state.size(); ++i) write_back(whole.state[i], block.state[i]);
}

}  // namespace

Optimizer::Optimizer(const OptimizerSpec& spec, const std::vector<at::Tensor>& parameters)
    : spec_(spec), state_names_(state_names(spec)) {
  for (const at::Tensor& unit : parameters) {
    at::TensorOptions options = unit.options();
    if (spec.state_dtype) options = options.dtype(scalar_type_of(*spec.state_dtype));
    UnitState& state = units_.emplace_back();
    for (size_t i = 0; i < state_names_.size(); ++i) {
      state.tensors.push_back(at::zeros(unit.sizes(), options));
    }
    state.steps = at::zeros({}, options.dtype(at::kFloat));
  }
}

void Optimizer::step(int unit, const at::Tensor& parameters, const at::Tensor& gradient,
                     double learning_rate, const at::Tensor& found_non_finite) {
  const UnitState& state = units_.at(unit);
  Step step{spec_, learning_rate, state.steps, std::nullopt};
  if (found_non_finite.defined()) {
    step.skip = found_non_finite.ne(0).to(at::kFloat);  // fused kernels compare with 1
    state.steps.add_(1 - *step.skip);
  } else {
    state.steps.add_(1);
  }

  const Operands whole{parameters, gradient, state.tensors};
  at::ScalarType dtype = parameters.scalar_type();
  bool converts = false;
  for (const at::Tensor& tensor : state.tensors) {
    converts |= tensor.scalar_type() != parameters.scalar_type();
    dtype = at::promoteTypes(dtype, tensor.scalar_type());
  }
  if (!converts && spec_.kind != OptimizerKind::kAdadelta) return update(step, whole);
  const int64_t block = parameters.is_cpu() ? kBlockCpu : kBlockCuda;
  for (int64_t start = 0; start < parameters.numel(); start += block) {
    update_block(step, whole, start, std::min(block, parameters.numel() - start), dtype);
  }
}

std::vector<std::pair<std::string, at::Tensor>> Optimizer::state(int unit) const {
  const std::vector<at::Tensor>& tensors = units_.at(unit).tensors;
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (size_t i = 0; i < tensors.size(); ++i) named.emplace_back(state_names_[i], tensors[i]);
  return named;
}

double Optimizer::steps() const { return units_.at(0).steps.item<double>(); }

void Optimizer::set_steps(double steps) {
  for (const UnitState& unit : units_) unit.steps.fill_(steps);
}

}  // namespace fsdp
