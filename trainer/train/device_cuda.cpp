#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>

#include "trainer/train/cuda_device.h"

namespace fsdp {

int cuda_device_count() { return c10::cuda::device_count(); }

std::string cuda_device_name(c10::Device device) {
  return at::cuda::getDeviceProperties(device.index())->name;
}

void set_cuda_memory_limit(c10::Device device, int64_t bytes) {
  at::globalContext().lazyInitDevice(at::kCUDA);  // the allocator takes no limit before that
  const double total_bytes =
      static_cast<double>(at::cuda::getDeviceProperties(device.index())->totalGlobalMem);
  c10::cuda::CUDACachingAllocator::setMemoryFraction(
      std::min(1.0, static_cast<double>(bytes) / total_bytes), device.index());
}

}  // namespace fsdp
