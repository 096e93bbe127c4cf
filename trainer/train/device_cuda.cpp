// Asks CUDA and NCCL about GPUs. Only CUDA builds contain this file.
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <torch/csrc/distributed/c10d/NCCLUtils.hpp>

#include "trainer/train/cuda_device.h"

namespace fsdp {

int cuda_device_count() { return c10::cuda::device_count(); }

std::string cuda_device_name(c10::Device device) {
  return at::cuda::getDeviceProperties(device.index())->name;
}

ComputeCapability cuda_compute_capability(c10::Device device) {
  const cudaDeviceProp* properties = at::cuda::getDeviceProperties(device.index());
  return {properties->major, properties->minor};
}

int64_t cuda_memory_bytes(c10::Device device) {
  return static_cast<int64_t>(at::cuda::getDeviceProperties(device.index())->totalGlobalMem);
}

std::string cuda_device_uuid(c10::Device device) {
  constexpr char kHex[] = "0123456789abcdef";
  const cudaUUID_t& uuid = at::cuda::getDeviceProperties(device.index())->uuid;
  std::string text;
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

std::string cuda_pci_id(c10::Device device) {
  const cudaDeviceProp* properties = at::cuda::getDeviceProperties(device.index());
  std::array<char, 32> text{};
  std::snprintf(
      text.data(), text.size(), "%04x:%02x:%02x.0", static_cast<unsigned>(properties->pciDomainID),
      static_cast<unsigned>(properties->pciBusID), static_cast<unsigned>(properties->pciDeviceID));
  return text.data();
}

// Does without C10_CUDA_CHECK, which also counts the devices and throws if the driver is too old.
std::string cuda_version() {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  return cuda_version_text(version);
}

std::string cuda_version_of_driver() {
  int version = 0;
  cudaDriverGetVersion(&version);
  return version == 0 ? "" : cuda_version_text(version);
}

std::string nccl_version() { return c10d::getNcclVersion(); }

// Asks the driver, because the runtime has no such query. With a GPU, the driver's library is
// loaded.
bool cuda_has_virtual_memory(c10::Device device) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return false;
  const auto get = reinterpret_cast<decltype(&cuDeviceGet)>(dlsym(driver, "cuDeviceGet"));
  const auto get_attribute =
      reinterpret_cast<decltype(&cuDeviceGetAttribute)>(dlsym(driver, "cuDeviceGetAttribute"));
  CUdevice handle = 0;
  int is_supported = 0;
  return get != nullptr && get_attribute != nullptr &&
         get(&handle, device.index()) == CUDA_SUCCESS &&
         get_attribute(&is_supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                       handle) == CUDA_SUCCESS &&
         is_supported != 0;
}

void set_cuda_allocator(const std::string& settings) {
  c10::CachingAllocator::setAllocatorSettings(settings);
}

void set_cuda_memory_limit(c10::Device device, int64_t bytes) {
  at::globalContext().lazyInitDevice(at::kCUDA);  // before that, the allocator takes no limit
  const auto total_bytes = static_cast<double>(cuda_memory_bytes(device));
  c10::cuda::CUDACachingAllocator::setMemoryFraction(
      std::min(1.0, static_cast<double>(bytes) / total_bytes), device.index());
}

}  // namespace fsdp
