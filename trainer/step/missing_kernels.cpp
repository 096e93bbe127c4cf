// A build for CUDA 12 has nvcc only if a toolkit is there. Its users must learn what that costs.
#include "trainer/step/missing_kernels.h"

#include "base/text/config_error.h"
#include "trainer/strategy/precision.h"

namespace fsdp {
namespace {

constexpr const char* kBringNvcc =
    "because nvcc was missing; install the CUDA toolkit of PyTorch's CUDA version (CUDA_HOME names "
    "its folder), remove build/cuda and call ./fsdp-run again";

bool is_stepped_on_gpu(const RunSpec& spec, c10::DeviceType device) {
  return device == c10::DeviceType::CUDA && spec.strategy.offload == Offload::kNone;
}

}  // namespace

void refuse_without_cuda_kernels(const RunSpec& spec, c10::DeviceType device,
                                 bool has_cuda_kernels) {
  if (has_cuda_kernels || device != c10::DeviceType::CUDA) return;
  const auto refuse = [](const char* key, const std::string& value, const std::string& instead) {
    throw ConfigError("", key,
                      value + " on a GPU needs kernels that this program was built without, " +
                          kBringNvcc + ", or set " + instead);
  };
  if (spec.method == Method::kQlora) refuse("method", "qlora", "lora");
  if (is_stepped_on_gpu(spec, device) && spec.optimizer.state_dtype == StateDtype::kInt8) {
    refuse("optimizer.state_dtype", "int8", "bf16");
  }
}

std::string slow_rounding_note(const RunSpec& spec, c10::DeviceType device, bool has_cuda_kernels) {
  const bool is_rounded = spec.optimizer.rounding == Rounding::kStochastic &&
                          (dtypes_of(spec.precision).parameters == at::kBFloat16 ||
                           spec.optimizer.state_dtype == StateDtype::kBf16);
  if (has_cuda_kernels || !is_rounded || !is_stepped_on_gpu(spec, device)) return "";
  return std::string(
             "optimizer.rounding: stochastic takes libtorch's operators, which move 592 bytes an "
             "element in place of 14, ") +
         kBringNvcc;
}

}  // namespace fsdp
