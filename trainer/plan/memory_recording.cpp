#include "trainer/plan/memory_recording.h"

#include <algorithm>

namespace fsdp {

MemoryRecording::MemoryRecording() {
  MetaAllocator::instance().set_observer(
      [this](uintptr_t id, const CountedAllocation& allocation, bool is_release) {
        const int64_t change = is_release ? -allocation.bytes : allocation.bytes;
        if (!allocation.is_of_device) {
          host_bytes_ += change;
          host_bytes_max_ = std::max(host_bytes_max_, host_bytes_);
          return;
        }
        entries_.push_back({id, allocation.bytes, allocation.label, is_release});
        bytes_ += change;
        if (is_release) return;
        int64_t& most = phases_[static_cast<size_t>(allocation.label.phase)];
        most = std::max(most, bytes_);
      });
}

MemoryRecording::~MemoryRecording() { MetaAllocator::instance().set_observer({}); }

}  // namespace fsdp
