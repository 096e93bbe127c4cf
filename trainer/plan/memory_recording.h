#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "trainer/memory/counting_allocator.h"
#include "trainer/memory/host_heap.h"

namespace fsdp {

// While it exists, what is allocated on meta, and released, in its order.
class MemoryRecording {
 public:
  struct Entry {
    uintptr_t id;
    int64_t bytes;
    MemoryLabel label;
    bool is_release;
  };

  explicit MemoryRecording(c10::DeviceType planned_for);
  ~MemoryRecording();
  MemoryRecording(const MemoryRecording&) = delete;
  MemoryRecording& operator=(const MemoryRecording&) = delete;

  // Says that the forward of a step's last micro-batch has ended.
  void mark_forward_end() { forward_end_ = entries_.size(); }
  // How many entries came before that.
  size_t forward_end() const { return forward_end_; }

  // Of the device's memory.
  const std::vector<Entry>& entries() const { return entries_; }
  // The peak while a phase lasted; 0: it did not come.
  int64_t bytes_max(MemoryPhase phase) const { return phases_[static_cast<size_t>(phase)]; }
  // The most that tensors take of the host's memory, those of the CPU as a device included.
  int64_t host_bytes_max() const { return host_bytes_max_; }

 private:
  void allocate_on_host(uintptr_t id, int64_t bytes);
  void release_on_host(uintptr_t id, int64_t bytes);

  std::vector<Entry> entries_;
  size_t forward_end_ = 0;
  std::array<int64_t, enum_names(MemoryPhase()).size()> phases_{};
  int64_t bytes_ = 0;
  bool is_device_the_host_;
  HostHeap host_heap_;
  std::unordered_map<uintptr_t, int64_t> host_addresses_;  // of those in the heap
  int64_t host_bytes_beside_heap_ = 0;
  int64_t host_bytes_max_ = 0;
};

}  // namespace fsdp
