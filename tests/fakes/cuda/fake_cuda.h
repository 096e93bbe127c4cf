#pragma once

#include <cstddef>
#include <cstdint>

// Fake GPUs: CUDA's runtime, the driver functions that libtorch uses, cuBLAS and NCCL. They record
// memory and the order of work, and compute nothing. A program links them instead of NVIDIA's
// libraries, or preloads them (LD_PRELOAD). Addresses of device memory rise, and nothing may touch
// them. Values that are read back are zero.
//
//   FAKE_CUDA_GPUS        The number of GPUs; 8 by default.
//   FAKE_CUDA_CAPABILITY  "9.0", of every GPU. By default 7.0, 8.0, 9.0, 10.0, and again.
//   FAKE_CUDA_MEMORY_GIB  The size that each GPU reports. It limits nothing.
//   FAKE_CUDA_FREE_MIB    "1:20": rank 1 can allocate 20 MiB.
//   FAKE_CUDA_FULL_IN     "1:aten::_foreach_norm": if the order is watched, rank 1 can allocate
//                         nothing in that operation.
//                         "1:cudaHostRegister": rank 1 cannot register memory.
//                         "1:ncclCommInitRank@3": rank 1 cannot make its third communicator.
namespace fsdp::fake_cuda {

inline constexpr int64_t kDeviceBytes = int64_t{24} << 30;

int gpu_count();
// The size that each GPU reports; libtorch asks once.
int64_t device_bytes();

// Sets how much memory can be allocated, whatever size a GPU reports.
void set_memory_bytes(int64_t bytes);
// The bytes in use. All GPUs share one memory.
int64_t used_bytes();

// Sets whether the creation of cuBLAS handles succeeds. At first it does.
void set_cublas_begins(bool begins);

bool is_device_memory(const void* address);
// True if the address is in registered memory of the host.
bool is_pinned_memory(const void* address);

}  // namespace fsdp::fake_cuda
