#pragma once

#include <c10/core/Device.h>

#include <string>

#include "contract/record/device_requirements.h"

// What device.cpp needs of CUDA; only in a CUDA build.
namespace fsdp {

int cuda_device_count();
std::string cuda_device_name(c10::Device device);
int64_t cuda_memory_bytes(c10::Device device);
ComputeCapability cuda_compute_capability(c10::Device device);
// As NVIDIA's driver writes it, without "GPU-" or "MIG-".
std::string cuda_device_uuid(c10::Device device);
// As Linux writes it: "0000:3b:00.0"; of a MIG slice, its GPU's.
std::string cuda_pci_id(c10::Device device);
std::string cuda_version();
// The newest CUDA that the driver serves; empty where there is no driver.
std::string cuda_version_of_driver();
std::string nccl_version();
// Whether memory can be mapped piece by piece, as segments that grow need.
bool cuda_has_virtual_memory(c10::Device device);
// As PYTORCH_ALLOC_CONF would, also after libtorch has looked at it.
void set_cuda_allocator(const std::string& settings);
// Lets the caching allocator reserve at most `bytes`, or all that the device has.
void set_cuda_memory_limit(c10::Device device, int64_t bytes);

}  // namespace fsdp
