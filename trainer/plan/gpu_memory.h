#pragma once

#include "contract/plan/run_plan.h"
#include "trainer/plan/memory_recording.h"

namespace fsdp {

// The memory that a GPU's allocator takes for recorded allocations.
struct GpuMemory {
  int64_t allocated_bytes_max = 0;
  int64_t reserved_bytes_max = 0;
  int64_t allocated_bytes_forward = 0;  // at the end of the last forward
  int64_t reserved_bytes_forward = 0;
  Fit fit = Fit::kUnknown;
};

// Replays the recorded allocations with CachingAllocator. `limit_bytes` is the memory available to
// tensors; nullopt: unknown.
GpuMemory replay_on_gpu(const MemoryRecording& recording, const RunSpec& spec,
                        const PlannedDevice& device, std::optional<int64_t> limit_bytes);

// Returns whether `bytes` fit within `limit_bytes`; kUnknown if the limit is unknown.
Fit fit_within(int64_t bytes, std::optional<int64_t> limit_bytes);

}  // namespace fsdp
