#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "trainer/memory/host_heap.h"
#include "trainer/memory/memory_label.h"

namespace fsdp {

// While it exists, what its thread allocates is neither counted as memory of the device nor
// limited: what would be in CPU memory next to a GPU, on a run whose device is the CPU, and what a
// library takes as workspace while an operator runs.
class UncountedMemory {
 public:
  explicit UncountedMemory(bool is_uncounted = true)
      : outer_(std::exchange(is_on_, is_on_ || is_uncounted)) {}
  ~UncountedMemory() { is_on_ = outer_; }
  UncountedMemory(const UncountedMemory&) = delete;
  UncountedMemory& operator=(const UncountedMemory&) = delete;

  static bool is_on() { return is_on_; }

 private:
  bool outer_;
  static inline thread_local bool is_on_ = false;
};

// What was counted of one allocation.
struct CountedAllocation {
  int64_t bytes = 0;
  bool is_of_device = true;  // false: UncountedMemory
  MemoryLabel label;         // as it was allocated
};

// Bytes that are allocated now and at the peak, and a limit, as a GPU's caching allocator has them.
// Safe to use from any thread.
class AllocationCounter {
 public:
  int64_t allocated_bytes() const;
  // Since the last reset_peak().
  int64_t allocated_bytes_max() const { return peak().bytes; }
  void reset_peak();

  // The peak since the last reset_peak().
  AllocationPeak peak() const;

  // 0: no limit.
  void set_limit(int64_t bytes);
  int64_t limit_bytes() const;

  // Called with each allocation, and with each release of one, UncountedMemory's too. `id` tells
  // those that exist at one time apart. Empty: nobody is. It must not allocate from this counter.
  using Observer =
      std::function<void(uintptr_t id, const CountedAllocation& allocation, bool is_release)>;
  void set_observer(Observer observer);

 protected:
  // What of `bytes` counts: of a single number nothing, unless `with_numbers`. Throws
  // c10::OutOfMemoryError above the limit.
  CountedAllocation count(size_t bytes, bool with_numbers = false);
  void uncount(const CountedAllocation& allocation);
  void observe(uintptr_t id, const CountedAllocation& allocation, bool is_release) const;
  [[noreturn]] void fail(size_t bytes) const;

 private:
  mutable std::mutex mutex_;
  int64_t allocated_bytes_ = 0;
  MemoryByUse by_use_;
  AllocationPeak peak_;
  int64_t limit_bytes_ = 0;
  Observer observer_;
};

// libtorch's allocator for the CPU.
class CountingAllocator final : public c10::Allocator, public AllocationCounter {
 public:
  static CountingAllocator& instance();

  // Makes it libtorch's CPU allocator from now on, and keeps freed buffers instead of returning
  // them to the kernel. Again: no effect. Tensors made before are not counted.
  void install();

  // Counts a tensor that was allocated as UncountedMemory. Throws as allocate does. No effect on
  // other tensors.
  void adopt(const at::Tensor& tensor);

  // Throws c10::OutOfMemoryError above the limit or when the system has no more. The data is
  // aligned to 64 bytes, and its own context, so that raw_allocate works.
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* destination, const void* source, size_t bytes) const override;

 private:
  CountingAllocator() = default;
  static void release(void* data);
  // With the header before the data. nullptr: the system has no more.
  std::byte* take_block(size_t bytes);
  void give_block(std::byte* block, size_t bytes);

  // Addresses for tensors alone: among small blocks of libraries no hole would be filled again.
  std::byte* heap_begin_ = nullptr;  // nullptr: glibc's heap is taken
  int64_t heap_bytes_ = 0;
  std::mutex heap_mutex_;
  HostHeap heap_;
};

// That of meta tensors, which have a size and no data.
class MetaAllocator final : public c10::Allocator, public AllocationCounter {
 public:
  static MetaAllocator& instance();
  // Makes it libtorch's allocator of meta tensors from now on.
  void install();
  // Whether single numbers count, as on a GPU, where each takes a block.
  void count_numbers(bool with_numbers) { with_numbers_ = with_numbers; }

  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* destination, const void* source, size_t bytes) const override;

 private:
  MetaAllocator() = default;
  static void release(void* context);

  bool with_numbers_ = false;
};

}  // namespace fsdp
