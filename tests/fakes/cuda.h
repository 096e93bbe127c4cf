#pragma once

#include <cstdint>

// Four GPUs without one, for programs with fake_cuda in them: what libtorch's allocator of GPU
// memory asks the CUDA runtime and the driver for only counts, and gives addresses that rise.
// Nothing may touch such memory. All GPUs draw from one memory; their compute capabilities are 7.0,
// 8.0, 9.0 and 10.0.
namespace fsdp::fake_cuda {

inline constexpr int kGpus = 4;
// What each GPU says it has; libtorch asks once.
inline constexpr int64_t kDeviceBytes = int64_t{24} << 30;

// What there is for the allocations to come, not a GPU's size; unlimited at first.
void set_memory_bytes(int64_t bytes);
int64_t used_bytes();

}  // namespace fsdp::fake_cuda
