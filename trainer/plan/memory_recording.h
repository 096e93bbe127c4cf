#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "trainer/memory/counting_allocator.h"
#include "trainer/memory/host_heap.h"

namespace fsdp {

// While it exists, records the allocations on meta and their releases, in order.
class MemoryRecording {
 public:
  explicit MemoryRecording(c10::DeviceType planned_for);
  ~MemoryRecording();
  MemoryRecording(const MemoryRecording&) = delete;
  MemoryRecording& operator=(const MemoryRecording&) = delete;

  // Says that the forward of a step's last micro-batch has ended.
  void mark_forward_end() { forward_end_ = changes_.size(); }
  // The number of changes before mark_forward_end().
  size_t forward_end() const { return forward_end_; }

  // The allocations and releases of device memory.
  const std::vector<MemoryChange>& changes() const { return changes_; }
  // The peak of device memory during a phase; 0 if the phase did not occur.
  int64_t bytes_max(MemoryPhase phase) const { return phases_[static_cast<size_t>(phase)]; }
  // The peak of host memory, which includes the tensors of a CPU device.
  int64_t host_bytes_max() const { return host_bytes_max_; }

 private:
  void allocate_on_host(uintptr_t id, int64_t bytes);
  void release_on_host(uintptr_t id, int64_t bytes);

  std::vector<MemoryChange> changes_;
  size_t forward_end_ = 0;
  std::array<int64_t, enum_names(MemoryPhase()).size()> phases_{};
  int64_t bytes_ = 0;
  bool is_device_the_host_;
  HostHeap host_heap_;
  std::unordered_map<uintptr_t, int64_t> host_addresses_;  // of blocks in the heap
  int64_t host_bytes_beside_heap_ = 0;
  int64_t host_bytes_max_ = 0;
};

}  // namespace fsdp
