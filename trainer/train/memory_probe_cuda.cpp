#include <c10/cuda/CUDACachingAllocator.h>

#include "trainer/train/cuda_device.h"

namespace fsdp {
namespace {

namespace caching_allocator = c10::cuda::CUDACachingAllocator;

class CudaMemoryProbe : public MemoryProbe {
 public:
  explicit CudaMemoryProbe(c10::DeviceIndex device) : device_(device) {}

  int64_t allocated_bytes() override { return total(stats().allocated_bytes).current; }
  int64_t reserved_bytes() override { return total(stats().reserved_bytes).current; }
  int64_t allocated_bytes_max() override { return total(stats().allocated_bytes).peak; }
  int64_t reserved_bytes_max() override { return total(stats().reserved_bytes).peak; }
  void reset_peaks() override { caching_allocator::resetPeakStats(device_); }

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

}  // namespace fsdp
