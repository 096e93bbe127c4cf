#pragma once

#include <c10/core/Allocator.h>

#include <atomic>
#include <cstdint>
#include <utility>

namespace fsdp {

// libtorch's allocator for the CPU, with what a GPU's caching allocator offers: bytes allocated now
// and at the peak, and a limit. Safe to use from any thread.
class CountingAllocator final : public c10::Allocator {
 public:
  static CountingAllocator& instance();

  // Makes it libtorch's CPU allocator from now on, and lets glibc keep freed buffers instead of
  // returning them to the kernel. Again: no effect. Tensors made before are not counted.
  void install();

  int64_t allocated_bytes() const { return allocated_bytes_.load(std::memory_order_relaxed); }
  // Since the last reset_peak().
  int64_t allocated_bytes_max() const {
    return allocated_bytes_max_.load(std::memory_order_relaxed);
  }
  void reset_peak();

  // 0: no limit.
  void set_limit(int64_t bytes) { limit_bytes_.store(bytes, std::memory_order_relaxed); }
  int64_t limit_bytes() const { return limit_bytes_.load(std::memory_order_relaxed); }

  // Throws c10::OutOfMemoryError above the limit or when the system has no more. The data is
  // aligned to 64 bytes, and its own context, so that raw_allocate works.
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* destination, const void* source, size_t bytes) const override;

 private:
  friend class HostMemory;

  CountingAllocator() = default;
  static void release(void* data);
  [[noreturn]] void fail(size_t bytes) const;

  std::atomic<int64_t> allocated_bytes_ = 0;
  std::atomic<int64_t> allocated_bytes_max_ = 0;
  std::atomic<int64_t> limit_bytes_ = 0;
  // Whether this thread allocates what would be in CPU memory next to a GPU.
  static thread_local bool is_for_host_;
};

// While it exists, what its thread allocates on the CPU is neither counted nor limited: on a run
// whose device is the CPU it tells what is offloaded to the host apart from what is on the device.
class HostMemory {
 public:
  explicit HostMemory(bool is_for_host = true)
      : outer_(std::exchange(CountingAllocator::is_for_host_,
                             CountingAllocator::is_for_host_ || is_for_host)) {}
  ~HostMemory() { CountingAllocator::is_for_host_ = outer_; }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

 private:
  bool outer_;
};

}  // namespace fsdp
