#pragma once

#include <utility>

#include "contract/record/memory_peak.h"

namespace fsdp {

inline constexpr int kNoMemoryUnit = -1;
inline constexpr int kComputePool = 0;

// What memory that is allocated is for, and what the rank is doing meanwhile.
struct MemoryLabel {
  MemoryPhase phase = MemoryPhase::kStart;
  int unit = kNoMemoryUnit;
  MemoryUse use = MemoryUse::kOther;
  int pool = kComputePool;  // of a stream, which a GPU's allocator keeps apart
};

// The first moment at which a peak was reached: what the thread that allocated was doing, and what
// all was for.
struct AllocationPeak {
  int64_t bytes = 0;
  MemoryLabel label{};
  MemoryByUse by_use{};
};

// As `step` of the run reports it.
inline MemoryPeak memory_peak(const AllocationPeak& peak, int64_t step) {
  MemoryPeak event{.step = step,
                   .phase = std::string(name_of(peak.label.phase)),
                   .unit = {},
                   .memory_allocated_bytes_max = peak.bytes,
                   .by_use = peak.by_use};
  if (peak.label.unit != kNoMemoryUnit) event.unit = peak.label.unit;
  return event;
}

// While it exists, what its thread allocates has those parts of the label that it gives; the others
// are as they were outside.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryUse use) : outer_(label_) { label_.use = use; }
  explicit MemoryScope(MemoryPhase phase) : outer_(label_) {
    label_ = {.phase = phase, .pool = label_.pool};
  }
  MemoryScope(int unit, MemoryUse use) : outer_(label_) {
    label_.unit = unit;
    label_.use = use;
  }
  MemoryScope(MemoryPhase phase, int unit, MemoryUse use)
      : outer_(std::exchange(label_, {phase, unit, use, label_.pool})) {}
  ~MemoryScope() { label_ = outer_; }
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

  static const MemoryLabel& current() { return label_; }

 private:
  friend class MemoryPool;

  MemoryLabel outer_;
  static inline thread_local MemoryLabel label_;
};

// While it exists, what its thread allocates is from that pool.
class MemoryPool {
 public:
  explicit MemoryPool(int pool) : outer_(std::exchange(MemoryScope::label_.pool, pool)) {}
  ~MemoryPool() { MemoryScope::label_.pool = outer_; }
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

 private:
  int outer_;
};

}  // namespace fsdp
