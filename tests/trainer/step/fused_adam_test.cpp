// Counts the costs of Adam on a GPU, on meta tensors. emulated_kernels_test.cpp runs its kernel.
#include "trainer/step/fused_adam.h"

#include "tests/trainer/kernels/observed_calls.h"
#include "tests/trainer/step/stepped_optimizer.h"
#include "trainer/step/adam.cuh"

namespace fsdp::fused_adam_test {

FlatUnit unit_on_meta(at::ScalarType dtype) {
  const at::Tensor flat = at::empty({3000}, at::TensorOptions(at::kMeta).dtype(dtype));
  return {flat,
          {{.parameter = "norm", .role = ParameterRole::kNorm, .begin = 0},
           {.parameter = "weight", .role = ParameterRole::kWeight, .begin = 200},
           {.parameter = "bias", .role = ParameterRole::kBias, .begin = 2000}}};
}

// Checks the launches of a step on a GPU, and the bytes that Adam's kernels move.
void check_step(const OptimizerSpec& spec, const FlatUnit& unit,
                const std::vector<std::string>& kernels, int64_t bytes_of_adam,
                const GradientVerdict& verdict = {}) {
  Optimizer optimizer(spec, {unit}, kSeed, at::kCUDA);
  const at::Tensor gradient = at::empty_like(unit.parameters);
  const ObservedCalls calls;
  optimizer.step(0, 1, unit.parameters, gradient, 0.1, verdict);
  std::vector<std::string> expected = kernels;
  expected.insert(expected.begin(), "aten::add_");  // counts the step
  CHECK(calls.names_of_launches() == expected);
  CHECK(calls.allocations().empty());
  for (const auto& call : calls.launches()) {
    if (call.name.ends_with("adam")) bytes_of_adam -= call.read_bytes + call.written_bytes;
  }
  CHECK(bytes_of_adam == 0);
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
  check_step(spec, unit, {"adam", "adam", "adam"}, 14 * unit.parameters.numel(),
             {.divisor = at::empty({}, at::TensorOptions(at::kMeta).dtype(at::kFloat))});
}

TEST_CASE("bf16 beside fp32 on a GPU: one kernel for parameters that are decayed alike",
          "[fused_adam]") {
  const bool has_bfloat16_parameters = GENERATE(false, true);
  OptimizerSpec spec = spec_of(GENERATE(OptimizerKind::kAdamW, OptimizerKind::kAdam));
  spec.state_dtype = has_bfloat16_parameters ? StateDtype::kFp32 : StateDtype::kBf16;
  spec.no_decay = {"norm"};
  const FlatUnit unit = unit_on_meta(has_bfloat16_parameters ? at::kBFloat16 : at::kFloat);
  const int64_t bytes_per_element = has_bfloat16_parameters ? 22 : 20;
  check_step(spec, unit, {"adam", "adam"}, bytes_per_element * unit.parameters.numel());
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
  const int64_t bytes_per_element = dtype == at::kFloat ? 16 : 10;
  const int64_t blocks = 2 * half / 256;
  check_step(spec, unit, {"quantized_adam"}, bytes_per_element * 2 * half + 16 * blocks);
}

}  // namespace fsdp::fused_adam_test
