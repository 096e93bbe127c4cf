#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trainer/memory/counting_allocator.h"

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

  MemoryRecording();
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
  // Of the host's memory beside it.
  int64_t host_bytes_max() const { return host_bytes_max_; }

 private:
  std::vector<Entry> entries_;
  size_t forward_end_ = 0;
  std::array<int64_t, enum_names(MemoryPhase()).size()> phases_{};
  int64_t bytes_ = 0;
  int64_t host_bytes_ = 0;
  int64_t host_bytes_max_ = 0;
};

}  // namespace fsdp
