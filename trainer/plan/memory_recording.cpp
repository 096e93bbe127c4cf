// Records allocations on meta. Host memory has the addresses that a run's would have.
#include "trainer/plan/memory_recording.h"

#include <algorithm>

namespace fsdp {

MemoryRecording::MemoryRecording(c10::DeviceType planned_for)
    : is_device_the_host_(planned_for == at::kCPU) {
  MetaAllocator::instance().set_observer(
      [this](uintptr_t id, const CountedAllocation& allocation, bool is_release) {
        const int64_t change = is_release ? -allocation.bytes : allocation.bytes;
        if (is_device_the_host_ || !allocation.is_of_device) {
          const int64_t bytes = allocation.bytes + HostHeap::kHeaderBytes;
          is_release ? release_on_host(id, bytes) : allocate_on_host(id, bytes);
        }
        // The recording has the planned device only.
        if (!allocation.is_of_device) return;
        changes_.push_back(memory_change(id, allocation, is_release));
        bytes_ += change;
        if (is_release) return;
        int64_t& most = phases_[static_cast<size_t>(allocation.label.phase)];
        most = std::max(most, bytes_);
      });
}

MemoryRecording::~MemoryRecording() { MetaAllocator::instance().set_observer({}); }

// Places blocks in a heap as CountingAllocator does. Other blocks, and all blocks beside a GPU, are
// placed by glibc, so only their sizes count.
void MemoryRecording::allocate_on_host(uintptr_t id, int64_t bytes) {
  if (is_device_the_host_ && HostHeap::holds(bytes)) {
    host_addresses_[id] = host_heap_.take(bytes);
  } else {
    host_bytes_beside_heap_ += bytes;
  }
  host_bytes_max_ = std::max(host_bytes_max_, host_heap_.bytes_max() + host_bytes_beside_heap_);
}

void MemoryRecording::release_on_host(uintptr_t id, int64_t bytes) {
  const auto in_heap = host_addresses_.find(id);
  if (in_heap == host_addresses_.end()) {
    host_bytes_beside_heap_ -= bytes;
    return;
  }
  host_heap_.give(in_heap->second, bytes);
  host_addresses_.erase(in_heap);
}

}  // namespace fsdp
