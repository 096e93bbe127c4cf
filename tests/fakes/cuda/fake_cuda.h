#pragma once

#include <cstddef>
#include <cstdint>

// GPUs without one: CUDA's runtime, what libtorch asks of the driver, cuBLAS and NCCL, which keep
// accounts instead of computing. In a program, or before its libraries (LD_PRELOAD), they replace
// NVIDIA's. Addresses of device memory rise, and nothing may touch them. What is read back is zero.
//
//   FAKE_CUDA_GPUS        how many there are; 4 unless said
//   FAKE_CUDA_CAPABILITY  "9.0"; unless said those of 4 GPUs are 7.0, 8.0, 9.0 and 10.0
//   FAKE_CUDA_MEMORY_GIB  what each has, kDeviceBytes unless said; any number can be used
//   FAKE_CUDA_FREE_MIB    "1:20": that of rank 1 has 20 MiB that can be used
namespace fsdp::fake_cuda {

inline constexpr int64_t kDeviceBytes = int64_t{24} << 30;

int gpu_count();
// What each GPU says it has; libtorch asks once.
int64_t device_bytes();

// What there is for the allocations to come, not a GPU's size; unlimited at first.
void set_memory_bytes(int64_t bytes);
// All GPUs draw from one memory.
int64_t used_bytes();

// Whether a handle of cuBLAS can be made; at first it can.
void set_cublas_begins(bool begins);

bool is_device_memory(const void* address);

}  // namespace fsdp::fake_cuda
