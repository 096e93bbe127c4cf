#pragma once

#include <c10/core/Device.h>

#include <string>

// What device.cpp needs of CUDA; only in a CUDA build.
namespace fsdp {

int cuda_device_count();
std::string cuda_device_name(c10::Device device);
int64_t cuda_memory_bytes(c10::Device device);
// As NVIDIA's driver writes it, without "GPU-" or "MIG-".
std::string cuda_device_uuid(c10::Device device);
std::string cuda_version();
std::string nccl_version();
// Lets the caching allocator reserve at most `bytes`, or all that the device has.
void set_cuda_memory_limit(c10::Device device, int64_t bytes);

}  // namespace fsdp
