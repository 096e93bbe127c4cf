#pragma once

#include "contract/plan/run_plan.h"
#include "trainer/plan/memory_recording.h"

namespace fsdp {

// What the allocator of a GPU's memory would have made of what was recorded.
struct GpuMemory {
  int64_t allocated_bytes_max = 0;
  int64_t reserved_bytes_max = 0;
  int64_t allocated_bytes_forward = 0;  // at the end of the last forward
  int64_t reserved_bytes_forward = 0;
  Fit fit = Fit::kUnknown;
};

// `limit_bytes` is what tensors may take there; absent: not known.
GpuMemory replay_on_gpu(const MemoryRecording& recording, const RunSpec& spec,
                        const PlannedDevice& device, std::optional<int64_t> limit_bytes);

// `bytes` of a limit, where all up to it can be used.
Fit fit_within(int64_t bytes, std::optional<int64_t> limit_bytes);

}  // namespace fsdp
