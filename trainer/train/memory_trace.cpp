// Records changes of device memory. Their sums at any moment are those that the counter has.
#include "trainer/train/memory_trace.h"

namespace fsdp {

MemoryTrace::MemoryTrace(AllocationCounter& counter) : counter_(counter) {
  counter.set_observer([this](auto... change) { take(change...); });
}

MemoryTrace::~MemoryTrace() { counter_.set_observer({}); }

void MemoryTrace::begin() {
  const std::lock_guard lock(mutex_);
  if (is_recording_) return;
  is_recording_ = true;
  begin_ = Clock::now();
  for (const auto& [address, allocation] : live_) changes_.push_back(allocation);
}

void MemoryTrace::stop() { counter_.set_observer({}); }

int64_t MemoryTrace::count() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(changes_);
}

std::vector<MemoryChange> MemoryTrace::changes(int64_t count) const {
  const std::lock_guard lock(mutex_);
  return {changes_.begin(), changes_.begin() + count};
}

void MemoryTrace::take(uintptr_t address, const CountedAllocation& allocation, bool is_release) {
  if (!allocation.is_of_device) return;
  MemoryChange change = memory_change(address, allocation, is_release);
  const std::lock_guard lock(mutex_);
  if (is_release) {
    live_.erase(address);
  } else {
    live_.emplace(address, change);
  }
  if (!is_recording_) return;
  change.at_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_).count();
  changes_.push_back(change);
}

}  // namespace fsdp
