// Plays recorded allocations through a model of the GPU's allocator and judges if they fit.
#include "trainer/plan/gpu_memory.h"

#include "trainer/plan/caching_allocator.h"
#include "trainer/plan/cuda_workspaces.h"

namespace fsdp {
namespace {

constexpr double kTightFrom = 0.85;  // of the available memory

// Differs from the id of every recorded allocation.
constexpr int64_t kWorkspaceId = 1;

int64_t workspace_bytes(const RunSpec& spec, const PlannedDevice& device) {
  const auto lookup = [&](const std::string& name) -> std::optional<std::string> {
    // make_deterministic sets this value.
    if (name == "CUBLAS_WORKSPACE_CONFIG" && spec.train.deterministic) return ":4096:8";
    return std::nullopt;
  };
  return cuda_workspaces(static_cast<int>(device.compute_capability), lookup).cublas_bytes;
}

// Throws CachingAllocator::OutOfMemory.
GpuMemory replay(const MemoryRecording& recording, int64_t workspace, CachingAllocator& allocator) {
  GpuMemory memory;
  allocator.allocate(kWorkspaceId, workspace, kComputePool);  // as make_backend does
  for (size_t i = 0; i < recording.changes().size(); ++i) {
    if (i == recording.forward_end()) {
      memory.allocated_bytes_forward = allocator.allocated_bytes();
      memory.reserved_bytes_forward = allocator.reserved_bytes();
    }
    const MemoryChange& change = recording.changes()[i];
    if (change.is_release) {
      allocator.free(change.address);
      continue;
    }
    allocator.allocate(change.address, change.bytes, static_cast<int>(change.pool));
  }
  memory.allocated_bytes_max = allocator.allocated_bytes_max();
  memory.reserved_bytes_max = allocator.reserved_bytes_max();
  return memory;
}

}  // namespace

GpuMemory replay_on_gpu(const MemoryRecording& recording, const RunSpec& spec,
                        const PlannedDevice& device, std::optional<int64_t> limit_bytes) {
  const int64_t workspace = workspace_bytes(spec, device);
  CachingAllocator unlimited({.device_bytes = device.memory_bytes});
  GpuMemory memory = replay(recording, workspace, unlimited);
  memory.fit = fit_within(memory.reserved_bytes_max, limit_bytes);
  // With a limit, the allocator gives cached memory back. This may be enough.
  if (memory.fit != Fit::kDoesNotFit || *limit_bytes <= 0) return memory;
  CachingAllocator limited({.memory_bytes = *limit_bytes, .device_bytes = device.memory_bytes});
  try {
    memory = replay(recording, workspace, limited);
    memory.fit = Fit::kTight;  // it fits only because cached memory is given back
  } catch (const CachingAllocator::OutOfMemory&) {
  }
  return memory;
}

Fit fit_within(int64_t bytes, std::optional<int64_t> limit_bytes) {
  if (!limit_bytes) return Fit::kUnknown;
  if (bytes > *limit_bytes) return Fit::kDoesNotFit;
  const double part = static_cast<double>(bytes) / static_cast<double>(*limit_bytes);
  return part > kTightFrom ? Fit::kTight : Fit::kFits;
}

}  // namespace fsdp
