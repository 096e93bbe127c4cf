#pragma once

#include <cstddef>
#include <cstdint>

// Fake GPUs: CUDA's runtime, the driver functions that libtorch uses, cuBLAS and NCCL. They keep
// accounts instead of computing. They replace NVIDIA's libraries in a program, or before its
// libraries (LD_PRELOAD). Addresses of device memory rise, and nothing may touch them. Values that
// are read back are zero.
//
//   FAKE_CUDA_GPUS        The number of GPUs; 4 by default.
//   FAKE_CUDA_CAPABILITY  "9.0", of every GPU. By default 7.0, 8.0, 9.0 and 10.0.
//   FAKE_CUDA_MEMORY_GIB  The size that each GPU reports. It limits nothing.
//   FAKE_CUDA_FREE_MIB    "1:20": rank 1 can allocate 20 MiB.
//   FAKE_CUDA_FULL_IN     "1:aten::argmax": rank 1 can allocate nothing in that operation, if the
//                         order is watched. "1:cudaHostRegister": nor register memory.
namespace fsdp::fake_cuda {

inline constexpr int64_t kDeviceBytes = int64_t{24} << 30;

int gpu_count();
// The size that each GPU reports; libtorch asks once.
int64_t device_bytes();

// Limits the allocations to come, whatever size a GPU reports.
void set_memory_bytes(int64_t bytes);
// All GPUs draw from one memory.
int64_t used_bytes();

// Lets the creation of cuBLAS handles succeed, as at first, or fail.
void set_cublas_begins(bool begins);

bool is_device_memory(const void* address);
// Registered memory of the host.
bool is_pinned_memory(const void* address);

}  // namespace fsdp::fake_cuda
