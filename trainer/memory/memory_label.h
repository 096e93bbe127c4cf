#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "contract/record/memory_peak.h"

namespace fsdp {

inline constexpr int kNoMemoryUnit = -1;
inline std::optional<int64_t> known_unit(int unit) {
  return unit == kNoMemoryUnit ? std::nullopt : std::optional<int64_t>(unit);
}
inline constexpr int kComputePool = 0;

// The use of an allocation, and the rank's activity at that time.
struct MemoryLabel {
  MemoryPhase phase = MemoryPhase::kStart;
  int unit = kNoMemoryUnit;
  MemoryUse use = MemoryUse::kOther;
  int pool = kComputePool;  // of the allocating stream; a GPU's allocator keeps pools apart
};

// The first moment of a peak: the allocating thread's activity, and the uses of all memory.
struct AllocationPeak {
  int64_t bytes = 0;
  MemoryLabel label{};
  MemoryByUse by_use{};
};

// Returns the peak as `step` of the run reports it.
inline MemoryPeak memory_peak(const AllocationPeak& peak, int64_t step) {
  return {.step = step,
          .phase = std::string(name_of(peak.label.phase)),
          .unit = known_unit(peak.label.unit),
          .memory_allocated_bytes_max = peak.bytes,
          .by_use = peak.by_use};
}

// While it exists, its thread's allocations have the given parts of the label. A phase alone resets
// the unit and the use. Other parts stay.
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

// While it exists, its thread allocates from this pool.
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
