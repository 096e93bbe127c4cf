#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <vector>

#include "trainer/memory/counting_allocator.h"

namespace fsdp {

// Records how device memory changes from the first traced step to the last. Therefore it watches
// all allocations from its construction on. Safe to use from any thread.
class MemoryTrace {
 public:
  // The counter outlives the object, and has no other observer.
  explicit MemoryTrace(AllocationCounter& counter);
  ~MemoryTrace();
  MemoryTrace(const MemoryTrace&) = delete;
  MemoryTrace& operator=(const MemoryTrace&) = delete;

  // Records from now on. The record begins with the allocations that are live.
  void begin();
  // Watches no more.
  void stop();

  // The number of changes so far.
  int64_t count() const;
  // Returns the first `count` changes.
  std::vector<MemoryChange> changes(int64_t count) const;

 private:
  using Clock = std::chrono::steady_clock;

  void take(uintptr_t address, const CountedAllocation& allocation, bool is_release);

  AllocationCounter& counter_;
  mutable std::mutex mutex_;
  std::map<uintptr_t, MemoryChange> live_;
  bool is_recording_ = false;
  Clock::time_point begin_;
  std::vector<MemoryChange> changes_;
};

}  // namespace fsdp
