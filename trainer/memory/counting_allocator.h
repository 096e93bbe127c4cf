#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

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

// Bytes that are allocated now and at the peak, and a limit, as a GPU's caching allocator has them.
// Safe to use from any thread.
class AllocationCounter {
 public:
  int64_t allocated_bytes() const { return allocated_bytes_.load(std::memory_order_relaxed); }
  // Since the last reset_peak().
  int64_t allocated_bytes_max() const {
    return allocated_bytes_max_.load(std::memory_order_relaxed);
  }
  void reset_peak();

  // 0: no limit.
  void set_limit(int64_t bytes) { limit_bytes_.store(bytes, std::memory_order_relaxed); }
  int64_t limit_bytes() const { return limit_bytes_.load(std::memory_order_relaxed); }

  // Called with the bytes of each allocation, and those of each release as a negative number.
  // Empty: nobody is. Not while others allocate.
  void set_observer(std::function<void(int64_t bytes)> observer) {
    observer_ = std::move(observer);
  }

 protected:
  // How many of `bytes` count: none of UncountedMemory, or of a single number. Throws
  // c10::OutOfMemoryError above the limit.
  int64_t count(size_t bytes);
  void uncount(int64_t counted);
  [[noreturn]] void fail(size_t bytes) const;

 private:
  std::atomic<int64_t> allocated_bytes_ = 0;
  std::atomic<int64_t> allocated_bytes_max_ = 0;
  std::atomic<int64_t> limit_bytes_ = 0;
  std::function<void(int64_t bytes)> observer_;
};

// libtorch's allocator for the CPU.
class CountingAllocator final : public c10::Allocator, public AllocationCounter {
 public:
  static CountingAllocator& instance();

  // Makes it libtorch's CPU allocator from now on, and lets glibc keep freed buffers instead of
  // returning them to the kernel. Again: no effect. Tensors made before are not counted.
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
};

// That of meta tensors, which have a size and no data.
class MetaAllocator final : public c10::Allocator, public AllocationCounter {
 public:
  static MetaAllocator& instance();
  // Makes it libtorch's allocator of meta tensors from now on.
  void install();

  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* destination, const void* source, size_t bytes) const override;

 private:
  MetaAllocator() = default;
  static void release(void* counted);
};

}  // namespace fsdp
