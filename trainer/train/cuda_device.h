#pragma once

#include <c10/core/Device.h>

#include <string>

#include "contract/devices/device_requirements.h"

// The parts of CUDA that device.cpp needs; only in a CUDA build.
namespace fsdp {

int cuda_device_count();
std::string cuda_device_name(c10::Device device);
int64_t cuda_memory_bytes(c10::Device device);
ComputeCapability cuda_compute_capability(c10::Device device);
// Returns the UUID as NVIDIA's driver writes it, without "GPU-" or "MIG-".
std::string cuda_device_uuid(c10::Device device);
// Returns the PCI address as Linux writes it, such as "0000:3b:00.0"; for a MIG slice, its GPU's.
std::string cuda_pci_id(c10::Device device);
std::string cuda_version();
// Returns the newest CUDA version that the driver supports; empty without a driver.
std::string cuda_version_of_driver();
std::string nccl_version();
// True if memory can be mapped piece by piece, as expandable segments need.
bool cuda_has_virtual_memory(c10::Device device);
// Applies settings as PYTORCH_ALLOC_CONF would, even after libtorch has read the variable.
void set_cuda_allocator(const std::string& settings);
// Limits the caching allocator to `bytes`, or to all memory of the device.
void set_cuda_memory_limit(c10::Device device, int64_t bytes);

}  // namespace fsdp
