#include "tests/fake_cuda/gpu_allocations.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <utility>

namespace fsdp {

namespace caching_allocator = c10::cuda::CUDACachingAllocator;

// Attaches one tracker for all calls, as libtorch cannot detach a tracker.
void observe_cuda(Allocated allocated) {
  static Allocated told;
  static const bool is_attached [[maybe_unused]] = [] {
    caching_allocator::attachAllocatorTraceTracker([](const caching_allocator::TraceEntry& entry) {
      if (!told) return;
      const bool is_release = entry.action_ == caching_allocator::TraceEntry::FREE_REQUESTED;
      if (is_release || entry.action_ == caching_allocator::TraceEntry::ALLOC) {
        told(entry.addr_, static_cast<int64_t>(entry.size_), is_release);
      }
    });
    return true;
  }();
  told = std::move(allocated);
}

}  // namespace fsdp
