// Asks libtorch's allocator for a GPU's memory, and registers host memory with CUDA.
#include "trainer/memory/cuda_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>

#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>

namespace fsdp {
namespace {

namespace caching_allocator = c10::cuda::CUDACachingAllocator;

// Counts what libtorch's allocator hands out, by use. The allocator knows no uses, and tells of
// each allocation in the thread that asked for it.
class CudaRequests : public AllocationCounter {
 public:
  static CudaRequests& instance() {
    static CudaRequests requests;
    return requests;
  }

 private:
  using Entry = caching_allocator::TraceEntry;

  // libtorch cannot detach a tracker. Its allocator cudaMallocAsync takes none.
  CudaRequests() {
    if (caching_allocator::name() != "native") return;
    caching_allocator::attachAllocatorTraceTracker([this](const Entry& entry) { take(entry); });
  }

  void take(const Entry& entry) {
    const std::lock_guard lock(mutex_);
    if (entry.action_ == Entry::ALLOC) {
      const CountedAllocation counted = count(entry.size_, /*with_numbers=*/true);
      live_[entry.addr_] = counted;
      observe(entry.addr_, counted, /*is_release=*/false);
    } else if (entry.action_ == Entry::FREE_REQUESTED) {
      const auto released = live_.extract(entry.addr_);
      if (released.empty()) return;
      uncount(released.mapped());
      observe(entry.addr_, released.mapped(), /*is_release=*/true);
    } else if (entry.action_ == Entry::OOM) {
      note_refusal();
    }
  }

  std::mutex mutex_;
  std::unordered_map<uintptr_t, CountedAllocation> live_;
};

class CudaMemoryProbe : public MemoryProbe {
 public:
  explicit CudaMemoryProbe(c10::DeviceIndex device) : device_(device) { requests(); }

  int64_t allocated_bytes() override { return total(stats().allocated_bytes).current; }
  int64_t reserved_bytes() override { return total(stats().reserved_bytes).current; }
  int64_t allocated_bytes_max() override { return total(stats().allocated_bytes).peak; }
  int64_t reserved_bytes_max() override { return total(stats().reserved_bytes).peak; }
  void reset_peaks() override {
    caching_allocator::resetPeakStats(device_);
    requests().reset_peak();
  }
  AllocationCounter& requests() override { return CudaRequests::instance(); }

 private:
  c10::CachingDeviceAllocator::DeviceStats stats() const {
    return caching_allocator::getDeviceStats(device_);
  }
  static c10::CachingAllocator::Stat total(const c10::CachingAllocator::StatArray& stat) {
    return stat[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  }

  c10::DeviceIndex device_;
};

}  // namespace

std::unique_ptr<MemoryProbe> make_cuda_memory_probe(c10::Device device) {
  return std::make_unique<CudaMemoryProbe>(device.index());
}

at::Tensor empty_registered(int64_t numel, at::ScalarType dtype) {
  if (numel == 0) return at::empty({0}, dtype);  // CUDA registers no empty memory
  constexpr size_t kPageBytes = 4096;
  const size_t bytes = static_cast<size_t>(numel) * c10::elementSize(dtype);
  const size_t whole_pages = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  void* data = std::aligned_alloc(kPageBytes, whole_pages);
  if (data == nullptr) throw std::bad_alloc();
  if (const cudaError_t error = cudaHostRegister(data, whole_pages, cudaHostRegisterDefault);
      error != cudaSuccess) {
    std::free(data);
    C10_CUDA_CHECK(error);
  }
  return at::from_blob(
      data, {numel},
      [](void* registered) {
        C10_CUDA_CHECK_WARN(cudaHostUnregister(registered));
        std::free(registered);
      },
      at::TensorOptions(dtype));
}

}  // namespace fsdp
