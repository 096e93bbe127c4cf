#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <utility>

#include "tests/trainer/step/step_allocations.h"

// Watches what steps allocate on the fake GPU (tests/fakes/cuda).
namespace fsdp {

inline constexpr int kCapability = 80;  // its attention does not use cuDNN, which has no fake
inline constexpr int kGpu = 1;          // has this capability
inline constexpr int kOtherGpu = 5;     // has it, too

// Operations whose CUB kernel allocates some kilobytes of workspace. Plans leave it out.
inline const std::vector<std::string> kWithWorkspace = {"aten::sort", "aten::cumsum_"};

// An ObserveAllocations of libtorch's allocator. Attaches one tracker for all calls, as libtorch
// cannot detach a tracker.
inline void observe_cuda(Allocated allocated) {
  namespace caching_allocator = c10::cuda::CUDACachingAllocator;
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
