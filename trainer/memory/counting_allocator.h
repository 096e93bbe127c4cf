#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "contract/record/memory_trace.h"
#include "trainer/memory/host_heap.h"
#include "trainer/memory/memory_label.h"

namespace fsdp {

// While it exists, its thread's allocations are neither counted as device memory nor limited. On a
// CPU device, it marks buffers that would be in host memory next to a GPU. It also marks a
// library's workspace while an operator runs.
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

// The counted facts of one allocation.
struct CountedAllocation {
  int64_t bytes = 0;
  bool is_of_device = true;  // false: UncountedMemory
  MemoryLabel label;         // at the time of allocation
};

// Returns an allocation as traces have it.
MemoryChange memory_change(uintptr_t address, const CountedAllocation& allocation, bool is_release);

// Counts the current and peak allocated bytes and applies a limit, as a GPU's caching allocator
// does. Safe to use from any thread.
class AllocationCounter {
 public:
  int64_t allocated_bytes() const;
  // The peak since the last reset_peak().
  int64_t allocated_bytes_max() const { return peak().bytes; }
  void reset_peak();

  // The peak since the last reset_peak().
  AllocationPeak peak() const;

  // 0: no limit. Errors name the limit by `name`, if it is given.
  void set_limit(int64_t bytes, std::string_view name = "");
  int64_t limit_bytes() const;

  // The allocations of at least 64 KiB that existed when one was last refused since reset_peak().
  std::vector<CountedAllocation> large_at_refusal() const;

  // Called with each allocation and each release, even of UncountedMemory. `id` is unique among
  // existing allocations. An empty observer is not called. An observer must not allocate from this
  // counter.
  using Observer =
      std::function<void(uintptr_t id, const CountedAllocation& allocation, bool is_release)>;
  void set_observer(Observer observer);

 protected:
  // Counts an allocation of `bytes`; a single number counts as 0 unless `with_numbers`. Throws
  // c10::OutOfMemoryError above the limit.
  CountedAllocation count(size_t bytes, bool with_numbers = false);
  void uncount(const CountedAllocation& allocation);
  void observe(uintptr_t id, const CountedAllocation& allocation, bool is_release);
  void note_refusal();
  [[noreturn]] void fail(size_t bytes);

 private:
  mutable std::mutex mutex_;
  int64_t allocated_bytes_ = 0;
  MemoryByUse by_use_;
  AllocationPeak peak_;
  int64_t limit_bytes_ = 0;
  std::string limit_name_;
  Observer observer_;
  std::unordered_map<uintptr_t, CountedAllocation> large_;  // by the observer's id
  std::vector<CountedAllocation> large_at_refusal_;
};

// libtorch's allocator for the CPU.
class CountingAllocator final : public c10::Allocator, public AllocationCounter {
 public:
  static CountingAllocator& instance() {
    static CountingAllocator allocator;
    return allocator;
  }

  // Makes this libtorch's CPU allocator from now on. It keeps freed buffers of less than 32 MiB
  // instead of returning them to the kernel. Later calls have no effect. Earlier tensors are not
  // counted.
  void install();

  // Counts a tensor if it was allocated as UncountedMemory. Throws as allocate() does.
  void adopt(const at::Tensor& tensor);

  // Throws c10::OutOfMemoryError above the limit or if the system has no memory left. The data is
  // aligned to 64 bytes. The data pointer is also its context, so that raw_allocate works.
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* destination, const void* source, size_t bytes) const override;

 private:
  CountingAllocator() = default;
  static void release(void* data);
  // Returns a block with the header before the data; nullptr if the system has no memory left.
  std::byte* take_block(size_t bytes);
  void give_block(std::byte* block, size_t bytes);

  // A range of addresses for tensors only. Small blocks of libraries would keep freed space from
  // being filled by tensors again.
  std::byte* heap_begin_ = nullptr;  // nullptr: glibc's heap is used
  int64_t heap_bytes_ = 0;
  std::mutex heap_mutex_;
  HostHeap heap_;
};

// libtorch's allocator for meta tensors, which have a size but no data.
class MetaAllocator final : public c10::Allocator, public AllocationCounter {
 public:
  static MetaAllocator& instance() {
    static MetaAllocator allocator;
    return allocator;
  }
  // Makes this libtorch's allocator of meta tensors from now on.
  void install();
  // Sets whether single numbers count, as on a GPU, where each takes a block.
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
