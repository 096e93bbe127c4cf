#pragma once

#include "contract/plan/run_plan.h"
#include "trainer/plan/memory_recording.h"

namespace fsdp {

// The recorded allocations as the GPU's allocator would have placed them.
struct GpuMemory {
  int64_t allocated_bytes_max = 0;
  int64_t reserved_bytes_max = 0;
  int64_t allocated_bytes_forward = 0;  // at the end of the last forward
  int64_t reserved_bytes_forward = 0;
  Fit fit = Fit::kUnknown;
};

// `limit_bytes` is the memory available to tensors; nullopt: unknown.
GpuMemory replay_on_gpu(const MemoryRecording& recording, const RunSpec& spec,
                        const PlannedDevice& device, std::optional<int64_t> limit_bytes);

// Judges `bytes` against a limit up to which all memory can be used.
Fit fit_within(int64_t bytes, std::optional<int64_t> limit_bytes);

}  // namespace fsdp
