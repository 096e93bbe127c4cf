// Runs the Adam kernel's functions on the host, and counts a GPU's costs on meta tensors.
#include "trainer/step/fused_adam.h"

#include <ATen/Version.h>

#include "tests/trainer/kernels/observed_calls.h"
#include "tests/trainer/step/stepped_optimizer.h"
#include "trainer/step/adam.cuh"

using namespace fsdp;

namespace {

// More than one of the optimizer's blocks on the CPU.
constexpr int64_t kShardSize = (1 << 18) + 4096;
constexpr int64_t kFirstElement = 1000;  // of the parameter, where the shard begins
const std::string kShardName = "weight";

struct DtypeCase {
  at::ScalarType parameters;
  StateDtype state;
  Rounding rounding;
};

const std::vector<DtypeCase> kDtypeCases{
    {at::kBFloat16, StateDtype::kBf16, Rounding::kStochastic},
    {at::kBFloat16, StateDtype::kFp32, Rounding::kStochastic},
    {at::kFloat, StateDtype::kBf16, Rounding::kStochastic},
    {at::kBFloat16, StateDtype::kFp32, Rounding::kNearest},
    {at::kFloat, StateDtype::kBf16, Rounding::kNearest},
};

FlatUnit shard_of(const at::Tensor& parameters) {
  return {parameters, {FlatPart{.parameter = kShardName, .first_element = kFirstElement}}};
}

// Calls `call` with the pointer to the tensor's elements, in the kernel's type.
template <typename Call>
void with_elements(const at::Tensor& tensor, Call&& call) {
  if (tensor.scalar_type() == at::kFloat) {
    call(tensor.mutable_data_ptr<float>());
  } else {
    call(static_cast<Bfloat16Bits*>(tensor.mutable_data_ptr()));
  }
}

// Makes a step in parts of kPart elements.
template <int kPart>
void step_by_parts(const OptimizerSpec& spec, int64_t number, const at::Tensor& parameters,
                   const at::Tensor& gradient, const std::vector<at::Tensor>& state,
                   double learning_rate, float divisor) {
  const Draws draws{.parameter_key = random_key(kSeed, kShardName), .step = number};
  const AdamRounding rounding{.is_random = spec.rounding == Rounding::kStochastic,
                              .key = draws.key(),
                              .first_element = kFirstElement};
  const AdamFactors factors =
      adam_factors({.learning_rate = learning_rate,
                    .beta1 = spec.beta1,
                    .beta2 = spec.beta2,
                    .epsilon = spec.epsilon,
                    .weight_decay = spec.weight_decay,
                    .is_decay_decoupled = spec.kind == OptimizerKind::kAdamW},
                   static_cast<double>(number));
  with_elements(parameters, [&]<typename Parameter>(Parameter* p) {
    with_elements(state[0], [&]<typename State>(State* first) {
      const auto* g = static_cast<const Parameter*>(gradient.const_data_ptr());
      auto* second = static_cast<State*>(state[1].mutable_data_ptr());
      for (int64_t part = 0; part < parameters.numel() / kPart; ++part) {
        step_adam_part<Parameter, State, kPart>(p, g, first, second, factors, divisor, rounding,
                                                part);
      }
    });
  });
}

FlatUnit unit_on_meta(at::ScalarType dtype) {
  const at::Tensor flat = at::empty({3000}, at::TensorOptions(at::kMeta).dtype(dtype));
  return {flat,
          {{.parameter = "norm", .role = ParameterRole::kNorm, .begin = 0},
           {.parameter = "weight", .role = ParameterRole::kWeight, .begin = 200},
           {.parameter = "bias", .role = ParameterRole::kBias, .begin = 2000}}};
}

int64_t bytes_of_adam(const ObservedCalls& calls) {
  int64_t bytes = 0;
  for (const auto& call : calls.launches()) {
    if (call.name.ends_with("adam")) bytes += call.read_bytes + call.written_bytes;
  }
  return bytes;
}

}  // namespace

TEST_CASE("Adam's kernel steps to the bits of the optimizer on the CPU", "[fused_adam]") {
  // Without fused multiply-adds libtorch rounds twice.
  if (at::get_cpu_capability() == "DEFAULT") return;
  const DtypeCase& given = kDtypeCases[GENERATE(range(size_t{0}, size_t{5}))];
  OptimizerSpec spec = spec_of(GENERATE(OptimizerKind::kAdamW, OptimizerKind::kAdam));
  spec.weight_decay = GENERATE(0.0, 0.1);
  spec.beta1 = GENERATE(0.9, 0.3);
  spec.state_dtype = given.state;
  spec.rounding = given.rounding;
  const float divisor = GENERATE(1.f, 3.7f);
  CAPTURE(given.parameters, given.state, name_of(given.rounding), name_of(spec.kind),
          spec.weight_decay, spec.beta1, divisor);

  const at::Tensor expected = values(kShardSize, 0.5, given.parameters);
  const at::Tensor found = expected.clone();
  Optimizer optimizer(spec, {shard_of(expected)}, kSeed, at::kCPU);
  std::vector<at::Tensor> state;
  for (const auto& [name, tensor] : optimizer.state(0)) state.push_back(tensor.clone());
  GradientVerdict verdict;
  if (divisor != 1) verdict.divisor = at::full({}, divisor);
  for (int number = 1; number <= 3; ++number) {
    const at::Tensor gradient = values(kShardSize, number, given.parameters);
    const auto step = number == 2 ? step_by_parts<1> : step_by_parts<4>;
    step(spec, number, found, gradient, state, rate_of_step(number), divisor);
    CHECK(gradient.equal(values(kShardSize, number, given.parameters)));
    optimizer.step(0, number, expected, gradient, rate_of_step(number), verdict);
    CHECK(found.equal(expected));
    for (size_t i = 0; i < state.size(); ++i) CHECK(state[i].equal(optimizer.state(0)[i].second));
  }
}

TEST_CASE("what is not finite stays so in Adam's kernel", "[fused_adam]") {
  const bool is_random = GENERATE(false, true);
  const float value = GENERATE(INFINITY, -INFINITY, NAN);
  Bfloat16Bits bits = 0;
  put(value, bits, is_random, /*draw=*/~uint64_t{0}, /*slot=*/0);
  CHECK(std::isnan(float_of(bits)) == std::isnan(value));
  if (!std::isnan(value)) CHECK(float_of(bits) == value);
}

TEST_CASE("stochastic rounding on a GPU: one kernel for a parameter, 14 bytes an element",
          "[fused_adam]") {
  OptimizerSpec spec = spec_of(OptimizerKind::kAdamW);
  spec.rounding = Rounding::kStochastic;
  const FlatUnit unit = unit_on_meta(at::kBFloat16);
  Optimizer optimizer(spec, {unit}, kSeed, at::kCUDA);
  const at::Tensor gradient = at::empty_like(unit.parameters);
  const GradientVerdict verdict{.divisor =
                                    at::empty({}, at::TensorOptions(at::kMeta).dtype(at::kFloat))};
  const ObservedCalls calls;
  optimizer.step(0, 1, unit.parameters, gradient, 0.1, verdict);
  CHECK(calls.names_of_launches() ==
        std::vector<std::string>{"aten::add_", "adam", "adam", "adam"});
  CHECK(calls.allocations().empty());
  CHECK(bytes_of_adam(calls) == 14 * unit.parameters.numel());
}

TEST_CASE("bf16 beside fp32 on a GPU: one kernel for parameters that are decayed alike",
          "[fused_adam]") {
  const bool has_bfloat16_parameters = GENERATE(false, true);
  OptimizerSpec spec = spec_of(GENERATE(OptimizerKind::kAdamW, OptimizerKind::kAdam));
  spec.state_dtype = has_bfloat16_parameters ? StateDtype::kFp32 : StateDtype::kBf16;
  spec.no_decay = {"norm"};
  const FlatUnit unit = unit_on_meta(has_bfloat16_parameters ? at::kBFloat16 : at::kFloat);
  Optimizer optimizer(spec, {unit}, kSeed, at::kCUDA);
  const ObservedCalls calls;
  optimizer.step(0, 1, unit.parameters, at::empty_like(unit.parameters), 0.1);
  CHECK(calls.names_of_launches() == std::vector<std::string>{"aten::add_", "adam", "adam"});
  const int64_t bytes_per_element = has_bfloat16_parameters ? 22 : 20;
  CHECK(bytes_of_adam(calls) == bytes_per_element * unit.parameters.numel());
}

TEST_CASE("state of 8 bits on a GPU: one kernel for parameters that are decayed alike",
          "[fused_adam]") {
  const auto dtype = GENERATE(at::kFloat, at::kBFloat16);
  OptimizerSpec spec = spec_of(GENERATE(OptimizerKind::kAdamW, OptimizerKind::kAdam));
  spec.state_dtype = StateDtype::kInt8;
  const int64_t half = 4096;
  const FlatUnit unit{at::empty({2 * half}, at::TensorOptions(at::kMeta).dtype(dtype)),
                      {{.parameter = "first", .parameter_numel = half},
                       {.parameter = "second", .begin = half, .parameter_numel = half}}};
  Optimizer optimizer(spec, {unit}, kSeed, at::kCUDA);
  const at::Tensor gradient = at::empty_like(unit.parameters);
  const ObservedCalls calls;
  optimizer.step(0, 1, unit.parameters, gradient, 0.1);
  CHECK(calls.names_of_launches() == std::vector<std::string>{"aten::add_", "quantized_adam"});
  CHECK(calls.allocations().empty());
  const int64_t bytes_per_element = dtype == at::kFloat ? 16 : 10;
  const int64_t blocks = 2 * half / 256;
  CHECK(bytes_of_adam(calls) == bytes_per_element * 2 * half + 16 * blocks);
}
