// Compares the bits of optimizer steps on a device with the CPU's.
#include <ATen/ATen.h>

#include "trainer/kernels/state_block.h"
#include "trainer/self_test/self_test.h"
#include "trainer/step/fused_adam.h"
#include "trainer/step/optimizer.h"

namespace fsdp {
namespace {

constexpr int64_t kComparedSize = 1'000'003;  // no multiple of a kernel's vectors
constexpr int64_t kComparedSteps = 3;

// The elements that may differ. A device with another pow(), or a processor without fused
// multiply-adds, rounds a few differently.
constexpr int64_t kMostDifferent = kComparedSize / 1000;

int64_t compared_size(const OptimizerSpec& spec) {
  if (spec.state_dtype != StateDtype::kInt8) return kComparedSize;
  return kComparedSize / kStateBlock * kStateBlock;
}

at::Tensor compared_values(int64_t size, int64_t phase, const at::TensorOptions& options) {
  return (at::arange(size, at::kDouble) * 0.37 + phase).sin_().to(options);
}

// Returns parameters and state, on the CPU, after kComparedSteps steps on `device`.
std::vector<at::Tensor> stepped(const OptimizerSpec& spec, at::ScalarType dtype,
                                at::Device device) {
  const auto options = at::TensorOptions(dtype).device(device);
  const int64_t size = compared_size(spec);
  const at::Tensor parameters = compared_values(size, 0, options);
  const FlatPart part{.parameter = "weight", .parameter_numel = size};
  Optimizer optimizer(spec, {{parameters, {part}}}, /*seed=*/1, device.type());
  const GradientVerdict verdict{.divisor = at::full({}, 3.7, options.dtype(at::kFloat))};
  for (int64_t number = 1; number <= kComparedSteps; ++number) {
    optimizer.step(0, number, parameters, compared_values(size, number, options), 1e-3, verdict);
  }
  std::vector<at::Tensor> tensors{parameters.cpu()};
  for (const auto& [name, tensor] : optimizer.state(0)) tensors.push_back(tensor.cpu());
  return tensors;
}

int64_t count_different(const OptimizerSpec& spec, at::ScalarType dtype, at::Device device) {
  const std::vector<at::Tensor> found = stepped(spec, dtype, device);
  const std::vector<at::Tensor> expected = stepped(spec, dtype, at::kCPU);
  int64_t most = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    most = std::max(most, found[i].ne(expected[i]).sum().item<int64_t>());
  }
  return most;
}

}  // namespace

void check_optimizer(at::Device device, const ShowRow& show) {
  struct Case {
    const char* name;
    at::ScalarType parameters;
    StateDtype state;
    Rounding rounding;
  };
  for (const Case& given : {
           Case{"bf16", at::kBFloat16, StateDtype::kBf16, Rounding::kStochastic},
           Case{"bf16, fp32 state", at::kBFloat16, StateDtype::kFp32, Rounding::kStochastic},
           Case{"fp32, bf16 state", at::kFloat, StateDtype::kBf16, Rounding::kStochastic},
           Case{"fp32, bf16 state", at::kFloat, StateDtype::kBf16, Rounding::kNearest},
           Case{"fp32, int8 state", at::kFloat, StateDtype::kInt8, Rounding::kNearest},
           Case{"bf16, int8 state", at::kBFloat16, StateDtype::kInt8, Rounding::kStochastic},
       }) {
    const bool is_missing = given.state == StateDtype::kInt8 && device.is_cuda() &&
                            !has_adam_kernel(given.parameters, at::kByte, device.type());
    if (is_missing) continue;
    OptimizerSpec spec;
    spec.weight_decay = 0.1;
    spec.state_dtype = given.state;
    spec.rounding = given.rounding;
    const int64_t different = count_different(spec, given.parameters, device);
    show({std::string(given.name) + ", " + std::string(name_of(given.rounding)),
          std::to_string(different) + " of " + std::to_string(compared_size(spec)) + " differ",
          "at most " + std::to_string(kMostDifferent), different <= kMostDifferent});
  }
}

}  // namespace fsdp
