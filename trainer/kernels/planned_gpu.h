#pragma once

#include <cstdint>

namespace fsdp {

// While it exists, this process plans for such a GPU: kernels on meta are those that are chosen
// there. Without one they are Hopper's, which may add in any order.
class PlannedGpu {
 public:
  // `compute_capability`: 80 is 8.0; 0 is not known, and taken for Hopper's. `deterministic`: as
  // train.deterministic.
  PlannedGpu(int64_t compute_capability, bool deterministic);
  ~PlannedGpu();
  PlannedGpu(const PlannedGpu&) = delete;
  PlannedGpu& operator=(const PlannedGpu&) = delete;

  // The first number of the capability of the GPU that is planned for.
  static int capability_major();
};

}  // namespace fsdp
