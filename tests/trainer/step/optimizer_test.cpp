#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tests/trainer/step/stepped_optimizer.h"

namespace fsdp::optimizer_test {

constexpr double kOverflowed = std::numeric_limits<double>::infinity();

TEST_CASE("a step with gradients that are not finite changes nothing") {
  OptimizerSpec spec = any_spec();
  if (GENERATE(false, true)) spec.state_dtype = StateDtype::kBf16;
  spec.rounding = GENERATE(Rounding::kNearest, Rounding::kStochastic);
  const double found = GENERATE(1.0, 2.0, kOverflowed);
  CAPTURE(name_of(spec.kind), spec.state_dtype.has_value(), found);
  Stepped with(spec, at::kFloat);
  Stepped without(spec, at::kFloat);
  const at::Tensor finite = at::zeros({});
  for (int number = 1; number <= 3; ++number) {
    with.step(number, finite);
    at::Tensor gradient = values(kSize, number, at::kFloat);
    gradient[0] = kOverflowed;
    gradient[kSize - 1] = std::nan("");
    with.optimizer.step(0, number, with.parameters, gradient, 1.0,
                        {.found_non_finite = at::full({}, found)});
    without.step(number);
    CHECK(with.equals(without));
  }
}

// Returns the number of elements of parameters and state that differ.
int64_t count_different(const Stepped& one, const Stepped& other) {
  int64_t count = one.parameters.ne(other.parameters).sum().item<int64_t>();
  for (size_t i = 0; i < one.optimizer.state(0).size(); ++i) {
    count += one.state(i).ne(other.state(i)).sum().item<int64_t>();
  }
  return count;
}

TEST_CASE("a step with a divisor is one with a gradient that was divided before") {
  OptimizerSpec spec = any_spec();
  const auto dtype = GENERATE(at::kFloat, at::kBFloat16);
  if (GENERATE(false, true))
    spec.state_dtype = dtype == at::kFloat ? StateDtype::kBf16 : StateDtype::kFp32;
  spec.rounding = GENERATE(Rounding::kNearest, Rounding::kStochastic);
  const double divisor = dtype == at::kFloat ? 3.7 : 4;  // bfloat16 is divided by 4 exactly
  CAPTURE(name_of(spec.kind), dtype, spec.state_dtype.has_value(), name_of(spec.rounding));
  Stepped inside(spec, dtype);
  Stepped before(spec, dtype);
  for (int number = 1; number <= 3; ++number) {
    const at::Tensor gradient = values(kSize, number, dtype);
    const at::Tensor divided = gradient.div(divisor);
    inside.optimizer.step(0, number, inside.parameters, gradient, rate_of_step(number),
                          {.divisor = at::full({}, divisor, at::kFloat)});
    before.optimizer.step(0, number, before.parameters, divided, rate_of_step(number));
  }
  CHECK(count_different(inside, before) == 0);
}

TEST_CASE("sgd with momentum of 16 bits steps as in fp32, and rounds once") {
  const auto dtype = GENERATE(at::kBFloat16, at::kHalf);
  const int64_t size = GENERATE(1, 16, 17, 48, 1001);
  const OptimizerSpec spec = spec_of(OptimizerKind::kSgd);
  const at::Tensor parameters = values(size, 0, dtype);
  Optimizer optimizer(spec, {unit_of(parameters)}, kSeed, at::kCPU);
  at::Tensor expected = parameters.clone();
  at::Tensor momentum = at::zeros_like(expected);
  for (int number = 1; number <= 6; ++number) {
    const at::Tensor gradient = values(size, number, dtype);
    optimizer.step(0, number, parameters, gradient, rate_of_step(number));
    const at::Tensor decayed =
        gradient.to(at::kFloat) + expected.to(at::kFloat) * spec.weight_decay;
    const at::Tensor velocity = momentum.to(at::kFloat) * spec.momentum + decayed;
    expected = (expected.to(at::kFloat) - velocity * rate_of_step(number)).to(dtype);
    momentum = velocity.to(dtype);
    const double unit = dtype == at::kHalf ? 0x1p-10 : 0x1p-7;  // a fused sum rounds differently
    CHECK(at::allclose(parameters.to(at::kFloat), expected.to(at::kFloat), unit, unit / 16));
    CHECK(at::allclose(optimizer.state(0).front().second.to(at::kFloat), momentum.to(at::kFloat),
                       unit, unit));
  }
}

TEST_CASE("state in bfloat16 is the parameters' dtype's, rounded after each step") {
  OptimizerSpec spec = any_spec();
  CAPTURE(name_of(spec.kind));
  Stepped plain(spec, at::kFloat);
  spec.state_dtype = StateDtype::kBf16;
  Stepped reduced(spec, at::kFloat);
  for (int number = 1; number <= 5; ++number) {
    plain.step(number);
    reduced.step(number);
    for (size_t i = 0; i < plain.optimizer.state(0).size(); ++i) {
      round_to(plain.state(i), at::kBFloat16);
      CHECK(reduced.state(i).scalar_type() == at::kBFloat16);
      CHECK(reduced.state(i).to(at::kFloat).equal(plain.state(i)));
    }
    CHECK(reduced.parameters.equal(plain.parameters));
  }
}

TEST_CASE("fp32 state of bfloat16 parameters is kept and stepped in fp32") {
  OptimizerSpec spec = any_spec();
  CAPTURE(name_of(spec.kind));
  Stepped plain(spec, at::kFloat);
  round_to(plain.parameters, at::kBFloat16);
  spec.state_dtype = StateDtype::kFp32;
  Stepped mixed(spec, at::kBFloat16);
  for (int number = 1; number <= 3; ++number) {
    const at::Tensor gradient = values(kSize, number, at::kBFloat16);
    plain.optimizer.step(0, number, plain.parameters, gradient.to(at::kFloat), 0.01);
    round_to(plain.parameters, at::kBFloat16);
    mixed.optimizer.step(0, number, mixed.parameters, gradient, 0.01);
    CHECK(mixed.parameters.to(at::kFloat).equal(plain.parameters));
    CHECK(mixed.state(0).equal(plain.state(0)));
  }
}

TEST_CASE("state is there before the first step, beside the parameters") {
  using Names = std::vector<std::string>;
  const auto [kind, names] = GENERATE(table<OptimizerKind, Names>({
      {OptimizerKind::kAdamW, {"exp_avg", "exp_avg_sq"}},
      {OptimizerKind::kAdam, {"exp_avg", "exp_avg_sq"}},
      {OptimizerKind::kSgd, {"momentum_buffer"}},
      {OptimizerKind::kAdadelta, {"square_avg", "acc_delta"}},
  }));
  const at::Tensor unit = at::ones({5}, at::kBFloat16);
  const Optimizer optimizer(spec_of(kind), {unit_of(unit)}, kSeed, at::kCPU);
  Names found;
  for (const auto& [name, tensor] : optimizer.state(0)) {
    found.push_back(name);
    CHECK(tensor.equal(at::zeros({5}, at::kBFloat16)));
  }
  CHECK(found == names);
  CHECK(optimizer.steps() == 0);

  OptimizerSpec without_momentum;
  without_momentum.kind = OptimizerKind::kSgd;
  CHECK(Optimizer(without_momentum, {unit_of(unit)}, kSeed, at::kCPU).state(0).empty());
}

TEST_CASE("weight decay leaves out what no_decay names") {
  OptimizerSpec spec = any_spec();
  if (GENERATE(false, true)) spec.state_dtype = StateDtype::kBf16;
  spec.no_decay =
      GENERATE(TextList{}, TextList{"norm"}, TextList{"bias"}, TextList{"bias", "norm"});
  const auto leaves_out = [&](const std::string& word) {
    return std::ranges::find(spec.no_decay, word) != spec.no_decay.end();
  };
  CAPTURE(name_of(spec.kind), spec.state_dtype.has_value(), spec.no_decay);

  constexpr std::array kRoles{ParameterRole::kNorm, ParameterRole::kWeight, ParameterRole::kWeight,
                              ParameterRole::kBias, ParameterRole::kNorm};
  constexpr int64_t kPartSize = 96;
  constexpr int64_t kPartCount = kRoles.size();
  const at::Tensor parameters = values(kPartSize * kPartCount, 0.5, at::kFloat);
  FlatUnit unit{parameters, {}};
  for (int64_t i = 0; i < kPartCount; ++i) {
    unit.parts.push_back({.parameter = "part", .role = kRoles[i], .begin = i * kPartSize});
  }
  Optimizer optimizer(spec, {unit}, kSeed, at::kCPU);
  std::vector<Stepped> expected;
  for (int64_t i = 0; i < kPartCount; ++i) {
    OptimizerSpec own = spec;
    const bool is_undecayed = (kRoles[i] == ParameterRole::kNorm && leaves_out("norm")) ||
                              (kRoles[i] == ParameterRole::kBias && leaves_out("bias"));
    if (is_undecayed) own.weight_decay = 0;
    expected.emplace_back(own, parameters.narrow(0, i * kPartSize, kPartSize).clone());
  }
  for (int number = 1; number <= 3; ++number) {
    const at::Tensor gradient = values(kPartSize * kPartCount, number, at::kFloat);
    optimizer.step(0, number, parameters, gradient, 0.02);
    for (int64_t i = 0; i < kPartCount; ++i) {
      const auto part = [&](const at::Tensor& flat) {
        return flat.narrow(0, i * kPartSize, kPartSize);
      };
      expected[i].optimizer.step(0, number, expected[i].parameters, part(gradient), 0.02);
      CHECK(part(parameters).equal(expected[i].parameters));
      for (size_t state = 0; state < optimizer.state(0).size(); ++state) {
        CHECK(part(optimizer.state(0)[state].second).equal(expected[i].state(state)));
      }
    }
  }
}

}  // namespace fsdp::optimizer_test
