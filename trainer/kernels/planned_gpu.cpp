#include "trainer/kernels/planned_gpu.h"

#include <ATen/Context.h>

namespace fsdp {
namespace {

constexpr int kHopper = 9;
int planned_capability_major = kHopper;

}  // namespace

PlannedGpu::PlannedGpu(int64_t compute_capability, bool deterministic) {
  constexpr int64_t kPerMajor = 10;
  if (compute_capability > 0) {
    planned_capability_major = static_cast<int>(compute_capability / kPerMajor);
  }
  at::globalContext().setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

PlannedGpu::~PlannedGpu() {
  planned_capability_major = kHopper;
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
}

int PlannedGpu::capability_major() { return planned_capability_major; }

}  // namespace fsdp
