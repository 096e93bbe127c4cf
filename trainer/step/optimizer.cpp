// Steps flat parameters by libtorch's fused kernels or ours. A skipped step changes nothing.
#include "trainer/step/optimizer.h"

#include <algorithm>
#include <optional>

#include "trainer/kernels/launch.h"
#include "trainer/kernels/state_block.h"
#include "trainer/memory/zero_pages.h"
#include "trainer/step/fused_adam.h"
#include "trainer/strategy/precision.h"

namespace fsdp {
namespace {

// The number of elements stepped at a time if a step needs temporary tensors. On the CPU, so few
// stay in the cache. On a GPU, so many keep it busy.
constexpr int64_t kBlockCpu = 1 << 18;
constexpr int64_t kBlockCuda = 1 << 22;

// The ends of the names of quantized states.
constexpr const char* kCodesSuffix = "_codes";
constexpr const char* kAbsmaxSuffix = "_absmax";

// Returns where the blocks of a shard's last part end. The padding behind it is not stepped,
// because its size, and so the memory of a step, would differ between ranks.
int64_t end_of_blocks(const FlatUnit& unit, const FlatPart& last) {
  const int64_t blocks =
      (last.parameter_numel - last.first_element + kStateBlock - 1) / kStateBlock;
  return std::min(last.begin + blocks * kStateBlock, unit.parameters.numel());
}

// One step of one unit. `scalars.step` already counts it; `scalars.skip` is 0 or 1.
struct Step {
  const OptimizerSpec& spec;
  double learning_rate;
  AdamScalars scalars;
  double weight_decay = 0;
};

// A unit or a part of it. All its tensors have one dtype when it is stepped.
struct Operands {
  at::Tensor parameters;
  at::Tensor gradient;
  std::vector<at::Tensor> state;
  std::vector<QuantizedState> quantized{};  // instead of `state`

  Operands part(int64_t begin, int64_t size) const {
    Operands part{parameters.narrow(0, begin, size), gradient.narrow(0, begin, size), {}};
    for (const at::Tensor& tensor : state) part.state.push_back(tensor.narrow(0, begin, size));
    for (const auto& moment : quantized) part.quantized.push_back(moment.part(begin, size));
    return part;
  }

  // Returns the tensors that a step writes.
  std::vector<at::Tensor> written() const {
    std::vector<at::Tensor> tensors{parameters};
    tensors.insert(tensors.end(), state.begin(), state.end());
    return tensors;
  }
};

bool is_adam(const OptimizerSpec& spec) {
  return spec.kind == OptimizerKind::kAdamW || spec.kind == OptimizerKind::kAdam;
}

bool is_quantized(const OptimizerSpec& spec) { return spec.state_dtype == StateDtype::kInt8; }
bool is_quantized(const OptimizerSpec& spec, int64_t parameter_numel) {
  return is_quantized(spec) && parameter_numel >= kLeastQuantized;
}

// Returns the dtype of state that is not quantized.
at::ScalarType state_dtype(const OptimizerSpec& spec, at::ScalarType parameters) {
  if (!spec.state_dtype) return parameters;
  switch (*spec.state_dtype) {
    case StateDtype::kFp32:
    case StateDtype::kInt8:
      return at::kFloat;
    case StateDtype::kBf16:
      return at::kBFloat16;
    case StateDtype::kFp16:
      return at::kHalf;
  }
  TORCH_CHECK(false, "not a dtype of state");
}

double decay_of(ParameterRole role, const OptimizerSpec& spec) {
  const auto is_left_out = [&](std::string_view word) {
    return std::ranges::find(spec.no_decay, word) != spec.no_decay.end();
  };
  const bool is_undecayed = (role == ParameterRole::kNorm && is_left_out("norm")) ||
                            (role == ParameterRole::kBias && is_left_out("bias"));
  return is_undecayed ? 0 : spec.weight_decay;
}

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

// Returns the tensors that a step writes. libtorch's fused kernels also divide the gradient in
// place.
std::vector<at::Tensor> written_by(const Step& step, const Operands& operands) {
  std::vector<at::Tensor> tensors = operands.written();
  if (step.scalars.divisor) tensors.push_back(operands.gradient);
  return tensors;
}

void adam(const Step& step, const Operands& operands) {
  using Fused =
      void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
               at::TensorList, double, double, double, double, double, bool, bool,
               const std::optional<at::Tensor>&, const std::optional<at::Tensor>&);
  const OptimizerSpec& spec = step.spec;
  const Fused fused =
      spec.kind == OptimizerKind::kAdamW ? Fused(at::_fused_adamw_) : Fused(at::_fused_adam_);
  const auto& [parameters, gradient, state, quantized] = operands;
  launch("fused_adam", {parameters, gradient, state[0], state[1]}, written_by(step, operands), [&] {
    fused({parameters}, {gradient}, {state[0]}, {state[1]}, /*max_exp_avg_sqs=*/{},
          {step.scalars.step}, step.learning_rate, spec.beta1, spec.beta2, step.weight_decay,
          spec.epsilon, /*amsgrad=*/false, /*maximize=*/false, step.scalars.divisor,
          step.scalars.skip);
  });
}

void adam_in_one_kernel(const Step& step, const Operands& operands,
                        const std::optional<Draws>& draws) {
  const OptimizerSpec& spec = step.spec;
  AdamRounding rounding{.is_random = draws.has_value(), .key = 0, .first_element = 0};
  if (draws) {
    rounding.key = draws->key();
    rounding.first_element = static_cast<uint64_t>(draws->first_element);
  }
  const AdamSettings settings{.learning_rate = step.learning_rate,
                              .beta1 = spec.beta1,
                              .beta2 = spec.beta2,
                              .epsilon = spec.epsilon,
                              .weight_decay = step.weight_decay,
                              .is_decay_decoupled = spec.kind == OptimizerKind::kAdamW};
  const auto& [parameters, gradient, state, quantized] = operands;
  if (quantized.empty()) {
    step_adam_in_one_kernel(parameters, gradient, state[0], state[1], settings, rounding,
                            step.scalars);
  } else {
    step_quantized_adam_in_one_kernel(parameters, gradient, quantized[0], quantized[1], settings,
                                      rounding, step.scalars);
  }
}

// is_first_step is never set: without dampening, a momentum of 0 gives the same result.
void sgd(const Step& step, const Operands& operands) {
  const auto& [parameters, gradient, state, quantized] = operands;
  launch("fused_sgd", {parameters, gradient}, written_by(step, operands), [&] {
    at::_fused_sgd_({parameters}, {gradient}, state, step.weight_decay, step.spec.momentum,
                    step.learning_rate, /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false,
                    /*is_first_step=*/false, step.scalars.divisor, step.scalars.skip);
  });
}

// Does the same as _single_tensor_adadelta of torch/optim/adadelta.py.
void adadelta(const Step& step, const Operands& operands) {
  const double rho = step.spec.rho;
  const double epsilon = step.spec.epsilon;
  const at::Tensor& parameters = operands.parameters;
  const at::Tensor& square_average = operands.state[0];
  const at::Tensor& accumulated_delta = operands.state[1];
  at::Tensor gradient = operands.gradient;
  if (step.scalars.divisor) gradient = gradient.div(*step.scalars.divisor);
  if (step.weight_decay != 0) gradient = gradient.add(parameters, step.weight_decay);

  square_average.mul_(rho).addcmul_(gradient, gradient, 1 - rho);
  at::Tensor delta = accumulated_delta.add(epsilon).sqrt_();
  delta.div_(square_average.add(epsilon).sqrt_()).mul_(gradient);
  accumulated_delta.mul_(rho).addcmul_(delta, delta, 1 - rho);
  parameters.add_(delta, -step.learning_rate);
}

// Steps a copy, because Adadelta's operations cannot be skipped by a decision on the device.
void adadelta_unless_skipped(const Step& step, const Operands& operands) {
  Operands updated{operands.parameters.clone(), operands.gradient, {}};
  for (const at::Tensor& tensor : operands.state) updated.state.push_back(tensor.clone());
  adadelta(step, updated);
  const at::Tensor skip = step.scalars.skip->to(at::kBool);
  const auto keep = [&](at::Tensor tensor, const at::Tensor& update) {
    launch("where", {skip, tensor, update}, {tensor},
           [&] { at::where_out(tensor, skip, tensor, update); });
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
      if (step.scalars.skip) return adadelta_unless_skipped(step, operands);
      return adadelta(step, operands);
  }
}

// Steps in `dtype`. Converts other dtypes to it and back. If `draws` is given, rounds at random.
void update_block(const Step& step, const Operands& block, at::ScalarType dtype,
                  const std::optional<Draws>& draws, bool is_on_cpu) {
  Operands converted{block.parameters.to(dtype), block.gradient.to(dtype), {}};
  for (const at::Tensor& tensor : block.state) converted.state.push_back(tensor.to(dtype));
  for (const auto& moment : block.quantized) converted.state.push_back(moment.dequantized());
  update(step, converted);
  for (size_t i = 0; i < block.quantized.size(); ++i) {
    block.quantized[i].quantize(converted.state[i]);
  }
  const std::vector<at::Tensor> to = block.written();
  std::vector<at::Tensor> from = converted.written();
  from.resize(to.size());
  if (draws && !is_on_cpu) return round_stochastically_by_operations(to, from, *draws);
  if (draws) {
    return launch("round_stochastically", from, to,
                  [&] { round_stochastically(to, from, *draws); });
  }
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].scalar_type() != dtype) to[i].copy_(from[i]);
  }
}

}  // namespace

std::vector<FlatUnit> flat_units(ShardStore& store) {
  const std::vector<at::Tensor> parameters = store.optimizer_parameters();
  std::vector<FlatUnit> units;
  for (int unit = 0; unit < store.unit_count(); ++unit) {
    FlatUnit& flat = units.emplace_back(FlatUnit{parameters[unit], {}});
    store.layout(unit).for_each({}, [&](const Parameter& parameter, const at::Tensor&) {
      if (parameter.numel() < kLeastQuantized) flat.small_numel += parameter.numel();
    });
    store.layout(unit).for_each_part(
        flat.parameters, store.options().shard_index,
        [&](const Parameter& parameter, int64_t first_element, const at::Tensor& part) {
          flat.parts.push_back({.parameter = parameter.tensors().front().name,
                                .role = parameter.role(),
                                .begin = part.storage_offset() - flat.parameters.storage_offset(),
                                .first_element = first_element,
                                .parameter_numel = parameter.numel()});
        });
  }
  return units;
}

Optimizer::Optimizer(const OptimizerSpec& spec, const std::vector<FlatUnit>& units, int64_t seed,
                     c10::DeviceType device)
    : spec_(spec), seed_(seed), device_(device), state_names_(state_names(spec)) {
  for (const FlatUnit& unit : units) units_.push_back(make_state(unit));
}

Optimizer::UnitState Optimizer::make_state(const FlatUnit& unit) const {
  const int64_t numel = unit.parameters.numel();
  const bool has_codes = is_quantized(spec_);
  const at::ScalarType own_dtype = unit.parameters.scalar_type();
  const at::ScalarType dtype = state_dtype(spec_, own_dtype);
  const at::TensorOptions options = unit.parameters.options().dtype(dtype);
  UnitState state;
  state.is_trained = numel > 0;
  for (size_t i = 0; i < state_names_.size(); ++i) {
    state.tensors.push_back(
        zeros_on_demand({has_codes ? std::min(unit.small_numel, numel) : numel}, options));
    if (has_codes) {
      state.quantized.push_back(QuantizedState::zeros(numel, options, /*is_signed=*/i == 0));
    }
  }
  std::vector<at::Tensor> written = state.tensors;
  written.push_back(unit.parameters);
  const auto is_bfloat16 = [](const at::Tensor& tensor) {
    return tensor.scalar_type() == at::kBFloat16;
  };
  state.is_rounded_at_random =
      spec_.rounding == Rounding::kStochastic && std::ranges::any_of(written, is_bfloat16);
  // On the CPU, libtorch's fused SGD reads and writes a 16-bit momentum wrongly.
  const bool is_wrong_in_libtorch =
      spec_.kind == OptimizerKind::kSgd && spec_.momentum != 0 && device_ == at::kCPU;
  state.dtype = state.is_rounded_at_random || is_wrong_in_libtorch ? at::kFloat : own_dtype;
  for (const at::Tensor& tensor : written) {
    state.dtype = at::promoteTypes(state.dtype, tensor.scalar_type());
  }
  const bool is_converted =
      has_codes || std::ranges::any_of(written, [&](const at::Tensor& tensor) {
        return tensor.scalar_type() != state.dtype;
      });
  state.is_in_one_kernel = is_adam(spec_) && is_converted &&
                           has_adam_kernel(own_dtype, has_codes ? at::kByte : dtype, device_);
  TORCH_CHECK(!has_codes || device_ == at::kCPU || state.is_in_one_kernel, "no kernel of int8");
  state.is_blockwise =
      !state.is_in_one_kernel && (is_converted || spec_.kind == OptimizerKind::kAdadelta);
  state.ranges = ranges_of(unit, state.is_rounded_at_random);
  state.steps = at::zeros({}, options.dtype(at::kFloat));
  return state;
}

std::vector<Optimizer::Range> Optimizer::ranges_of(const FlatUnit& unit,
                                                   bool is_rounded_at_random) const {
  std::vector<Range> ranges;
  int64_t small_numel = 0;
  for (size_t i = 0; i < unit.parts.size(); ++i) {
    const FlatPart& part = unit.parts[i];
    const bool is_last = i + 1 == unit.parts.size();
    const bool has_codes = is_quantized(spec_, part.parameter_numel);
    const int64_t end = !is_last    ? unit.parts[i + 1].begin
                        : has_codes ? end_of_blocks(unit, part)
                                    : unit.parameters.numel();
    Range range{.begin = part.begin,
                .size = end - part.begin,
                .state_begin = part.begin,
                .is_quantized = has_codes,
                .weight_decay = decay_of(part.role, spec_),
                .draws = {.parameter_key = random_key(seed_, part.parameter),
                          .first_element = part.first_element}};
    const bool is_small = is_quantized(spec_) && !range.is_quantized;
    if (is_small) {
      range.size = std::min(range.size, part.parameter_numel - part.first_element);
      range.state_begin = std::exchange(small_numel, small_numel + range.size);
    }
    if (ranges.empty() || is_rounded_at_random || is_small ||
        ranges.back().is_quantized != range.is_quantized ||
        ranges.back().weight_decay != range.weight_decay) {
      ranges.push_back(range);
    } else {
      ranges.back().size = end - ranges.back().begin;
    }
  }
  return ranges;
}

void Optimizer::step(int unit, int64_t number, const at::Tensor& parameters,
                     const at::Tensor& gradient, double learning_rate,
                     const GradientVerdict& verdict) {
  const UnitState& state = units_.at(unit);
  Step step{spec_, learning_rate, AdamScalars{.step = state.steps}};
  if (verdict.divisor.defined()) step.scalars.divisor = verdict.divisor.to(at::kFloat);
  if (verdict.found_non_finite.defined()) {
    // Fused kernels skip the step if the value is 1.
    step.scalars.skip = verdict.found_non_finite.ne(0).to(at::kFloat);
    state.steps.add_(1 - *step.scalars.skip);
  } else {
    state.steps.add_(1);
  }

  const bool is_on_cpu = device_ == at::kCPU;
  // A skipped step must not quantize again. If none of a block's codes stands for 1, the block
  // would change.
  const bool is_skipped = !state.quantized.empty() && is_on_cpu && step.scalars.skip &&
                          !state.steps.is_meta() && step.scalars.skip->item<float>() == 1;
  if (is_skipped) return;
  const int64_t block_size = is_on_cpu ? kBlockCpu : kBlockCuda;
  for (const Range& range : state.ranges) {
    Operands whole{parameters.narrow(0, range.begin, range.size),
                   gradient.narrow(0, range.begin, range.size),
                   {}};
    for (size_t i = 0; i < state_names_.size(); ++i) {
      if (range.is_quantized) {
        whole.quantized.push_back(state.quantized[i].part(range.begin, range.size));
      } else {
        whole.state.push_back(state.tensors[i].narrow(0, range.state_begin, range.size));
      }
    }
    step.weight_decay = range.weight_decay;
    const int64_t most = state.is_blockwise ? block_size : range.size;
    for (int64_t done = 0; done < range.size; done += most) {
      std::optional<Draws> draws;
      if (state.is_rounded_at_random) {
        draws = range.draws;
        draws->step = number;
        draws->first_element += done;
      }
      const int64_t size = std::min(most, range.size - done);
      const Operands block = whole.part(done, size);
      if (state.is_in_one_kernel) {
        adam_in_one_kernel(step, block, draws);
      } else {
        update_block(step, block, state.dtype, draws, is_on_cpu);
      }
    }
  }
}

std::vector<std::pair<std::string, at::Tensor>> Optimizer::state(int unit) const {
  const UnitState& state = units_.at(unit);
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (size_t i = 0; i < state_names_.size(); ++i) {
    named.emplace_back(state_names_[i], state.tensors[i]);
    if (state.quantized.empty()) continue;
    named.emplace_back(state_names_[i] + kCodesSuffix, state.quantized[i].codes);
    named.emplace_back(state_names_[i] + kAbsmaxSuffix, state.quantized[i].absmax);
  }
  return named;
}

void Optimizer::for_each_state(int unit, const FlatLayout& layout, int64_t shard_index,
                               const VisitState& visit) const {
  if (state_names_.empty()) return;
  const UnitState& state = units_.at(unit);
  const at::Tensor& shard =
      state.quantized.empty() ? state.tensors.front() : state.quantized.front().codes;
  int64_t small_numel = 0;
  layout.for_each_part(
      shard, shard_index, [&](const Parameter& parameter, int64_t first, const at::Tensor& part) {
        const bool has_codes = is_quantized(spec_, parameter.numel());
        const int64_t size = part.numel();
        int64_t begin = part.storage_offset() - shard.storage_offset();
        if (is_quantized(spec_) && !has_codes)
          begin = std::exchange(small_numel, small_numel + size);
        for (size_t i = 0; i < state_names_.size(); ++i) {
          const std::string& name = state_names_[i];
          if (!has_codes) {
            visit(name, parameter, first, state.tensors[i].narrow(0, begin, size));
            continue;
          }
          const auto& [codes, absmax, is_signed] = state.quantized[i];
          visit(name + kCodesSuffix, parameter, first, codes.narrow(0, begin, size));
          visit(name + kAbsmaxSuffix, parameter, first / kStateBlock,
                absmax.narrow(0, begin / kStateBlock, (size + kStateBlock - 1) / kStateBlock));
        }
      });
}

// Reads a trained unit, because units without trained parameters are never stepped.
double Optimizer::steps() const {
  const auto trained = std::ranges::find(units_, true, &UnitState::is_trained);
  TORCH_CHECK(trained != units_.end(), "nothing is trained");
  return trained->steps.item<double>();
}

void Optimizer::set_steps(double steps) {
  for (const UnitState& unit : units_) unit.steps.fill_(steps);
}

}  // namespace fsdp
