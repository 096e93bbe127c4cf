// Compares the codes of state of 8 bits with their definition. emulated_kernels_test.cpp compares
// the steps with those of another implementation.
#include "trainer/step/quantized_state.h"

#include <cmath>
#include <limits>

#include "tests/trainer/step/stepped_optimizer.h"
#include "trainer/kernels/state_block.h"
#include "trainer/step/block_codes.cuh"

namespace fsdp::quantized_state_test {

constexpr int64_t kBlocks = 1100;  // more than one of the optimizer's blocks on the CPU
constexpr int64_t kNumel = kBlocks * kStateBlock;

const BlockCodes& table_of(bool is_signed) {
  return is_signed ? kFirstMomentCodes : kSecondMomentCodes;
}

// Returns the code of the nearest value. If two values are equally near, returns the lower code.
int nearest_code(const BlockCodes& table, double number) {
  int nearest = 0;
  for (int code = 1; code < 256; ++code) {
    if (std::abs(number - table.values[code]) < std::abs(number - table.values[nearest])) {
      nearest = code;
    }
  }
  return nearest;
}

OptimizerSpec int8_spec(OptimizerKind kind) {
  OptimizerSpec spec = spec_of(kind);
  spec.state_dtype = StateDtype::kInt8;
  return spec;
}

FlatUnit large_unit(const at::Tensor& parameters, int64_t first_element = 0) {
  return {parameters,
          {{.parameter = "weight", .first_element = first_element, .parameter_numel = kNumel}}};
}

at::Tensor gradient_of(int number, at::ScalarType dtype = at::kFloat) {
  // Most elements of some blocks are far below their largest.
  at::Tensor gradient = values(kNumel, number, at::kFloat);
  gradient.view({kBlocks, kStateBlock}).narrow(0, 0, 9).narrow(1, 1, 200).mul_(1e-5);
  gradient.view({kBlocks, kStateBlock})[kBlocks - 1].zero_();
  return gradient.to(dtype);
}

TEST_CASE("a code is that of the nearest value, also next to the limits", "[int8]") {
  const bool is_signed = GENERATE(true, false);
  const BlockCodes& table = table_of(is_signed);
  std::vector<float> numbers{0, 1, 1e-30f, 5e-8f, 0x1p-22f};
  for (int code = 0; code < 255; ++code) {
    const float middle = table.values[code] / 2 + table.values[code + 1] / 2;
    for (const float number :
         {table.values[code], middle, std::nextafter(middle, -2.f), std::nextafter(middle, 2.f)}) {
      numbers.push_back(number);
    }
  }
  const at::Tensor many = at::rand({20'000}).pow(GENERATE(1, 9));
  numbers.insert(numbers.end(), many.const_data_ptr<float>(),
                 many.const_data_ptr<float>() + many.numel());
  int64_t wrong = 0;
  for (const float number : numbers) {
    wrong += table.code_of(number) != nearest_code(table, number);
    if (is_signed) wrong += table.code_of(-number) != nearest_code(table, -number);
  }
  CHECK(wrong == 0);
}

TEST_CASE("numbers outside of the map have a code too", "[int8]") {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  for (const bool is_signed : {true, false}) {
    CHECK(table_of(is_signed).code_of(std::nanf("")) == 0);
    CHECK(table_of(is_signed).code_of(kInfinite) == 255);
    CHECK(table_of(is_signed).code_of(-kInfinite) == 0);
  }
}

TEST_CASE("blocks of zeros stay so, and what is not finite does not look finite", "[int8]") {
  const bool is_signed = GENERATE(true, false);
  const QuantizedState state = QuantizedState::zeros(3 * kStateBlock, at::kFloat, is_signed);
  state.absmax.fill_(1);
  CHECK(state.dequantized().eq(0).all().item<bool>());
  at::Tensor elements = at::zeros({3 * kStateBlock});
  elements[5] = std::nan("");
  elements[kStateBlock + 7] = std::numeric_limits<float>::infinity();
  state.quantize(elements);
  const at::Tensor found = state.dequantized();
  CHECK(!found[5].isfinite().item<bool>());
  CHECK(!found[kStateBlock + 7].isfinite().item<bool>());
  CHECK(found.narrow(0, 2 * kStateBlock, kStateBlock).eq(0).all().item<bool>());
}

TEST_CASE("ranks that share a parameter step its blocks as one rank does", "[int8]") {
  OptimizerSpec spec = int8_spec(OptimizerKind::kAdamW);
  spec.rounding = GENERATE(Rounding::kNearest, Rounding::kStochastic);
  const at::Tensor whole = values(kNumel, 0.5, at::kBFloat16);
  const at::Tensor shared = whole.clone();
  Optimizer one(spec, {large_unit(whole)}, kSeed, at::kCPU);
  const int64_t cut = 37 * kStateBlock;
  const at::Tensor first = shared.narrow(0, 0, cut);
  const at::Tensor second = shared.narrow(0, cut, kNumel - cut);
  Optimizer two(spec, {large_unit(first), large_unit(second, cut)}, kSeed, at::kCPU);
  for (int number = 1; number <= 3; ++number) {
    const at::Tensor gradient = gradient_of(number, at::kBFloat16);
    one.step(0, number, whole, gradient, rate_of_step(number));
    two.step(0, number, first, gradient.narrow(0, 0, cut), rate_of_step(number));
    two.step(1, number, second, gradient.narrow(0, cut, kNumel - cut), rate_of_step(number));
    CHECK(shared.equal(whole));
  }
}

TEST_CASE("a skipped step keeps codes, scales and parameters", "[int8]") {
  const OptimizerSpec spec = int8_spec(OptimizerKind::kAdamW);
  const at::Tensor parameters = values(kNumel, 0.5, at::kFloat);
  Optimizer optimizer(spec, {large_unit(parameters)}, kSeed, at::kCPU);
  optimizer.step(0, 1, parameters, gradient_of(1), 0.01);
  std::vector<at::Tensor> before{parameters.clone()};
  for (const auto& [name, tensor] : optimizer.state(0)) before.push_back(tensor.clone());
  optimizer.step(0, 2, parameters, gradient_of(2), 0.01, {.found_non_finite = at::ones({})});
  CHECK(optimizer.steps() == 1);
  CHECK(parameters.equal(before[0]));
  for (size_t i = 0; i + 1 < before.size(); ++i) {
    CHECK(optimizer.state(0)[i].second.equal(before[i + 1]));
  }
  optimizer.step(0, 2, parameters, gradient_of(2), 0.01, {.found_non_finite = at::zeros({})});
  CHECK(!parameters.equal(before[0]));
}

TEST_CASE("parameters below 4,096 elements keep fp32 state", "[int8]") {
  OptimizerSpec spec = int8_spec(OptimizerKind::kAdamW);
  const auto dtype = GENERATE(at::kFloat, at::kBFloat16);
  struct Part {
    int64_t begin;
    int64_t size;
    bool is_small;
  };
  // A norm, a matrix, a bias, a matrix, and the end of a small parameter.
  const std::vector<Part> parts{{0, 100, true},
                                {256, 4096, false},
                                {4352, 4095, true},
                                {8448, 5000, false},
                                {13568, 30, true}};
  const int64_t numel = 14'080;
  at::Tensor parameters = at::zeros({numel}, dtype);
  FlatUnit unit{parameters, {}, /*small_numel=*/100 + 4095 + 286};
  std::vector<Stepped> expected;
  for (const Part& part : parts) {
    parameters.narrow(0, part.begin, part.size).copy_(values(part.size, 0.5, dtype));
    const bool is_cut = part.size == 30;
    unit.parts.push_back({.parameter = "weight",
                          .begin = part.begin,
                          .first_element = is_cut ? 256 : 0,
                          .parameter_numel = is_cut ? 286 : part.size});
    OptimizerSpec own = spec;
    if (part.is_small) own.state_dtype = StateDtype::kFp32;
    expected.emplace_back(own, parameters.narrow(0, part.begin, part.size).clone());
    if (part.is_small) continue;
    // A separate optimizer needs whole blocks.
    const int64_t padded = (part.size + kStateBlock - 1) / kStateBlock * kStateBlock;
    expected.back().parameters = at::zeros({padded}, dtype);
    expected.back()
        .parameters.narrow(0, 0, part.size)
        .copy_(parameters.narrow(0, part.begin, part.size));
    expected.back().optimizer = Optimizer(
        own,
        {{expected.back().parameters, {{.parameter = "weight", .parameter_numel = part.size}}}},
        kSeed, at::kCPU);
  }
  Optimizer optimizer(spec, {unit}, kSeed, at::kCPU);
  for (int number = 1; number <= 3; ++number) {
    at::Tensor gradient = at::zeros({numel}, dtype);
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto& [begin, size, is_small] = parts[i];
      const int64_t padded = expected[i].parameters.numel();
      gradient.narrow(0, begin, size).copy_(values(size, number, dtype));
      expected[i].optimizer.step(0, number, expected[i].parameters,
                                 gradient.narrow(0, begin, padded).clone(), 0.02);
    }
    optimizer.step(0, number, parameters, gradient, 0.02);
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto& [begin, size, is_small] = parts[i];
      CHECK(parameters.narrow(0, begin, size).equal(expected[i].parameters.narrow(0, 0, size)));
    }
  }
}

}  // namespace fsdp::quantized_state_test
