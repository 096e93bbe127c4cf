#pragma once

// Runs our own CUDA kernels on the host, with their barriers and shuffles. The .cu files are
// compiled as C++, after this header. One block runs at a time. A thread runs until its next
// barrier. The order of threads is new after each barrier, so a missing barrier shows. A block
// whose threads wait for each other for ever is an error.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

namespace emulated {

struct Index {
  unsigned x;
};
extern Index thread_index;
extern Index block_index;
extern Index grid_size;

// The next grid leaves out its blocks before `first`.
void run_blocks_from(int64_t first);
// The number of blocks of the last grid, with those that were left out.
int64_t blocks_of_last_grid();

void run_grid(int64_t blocks, int threads, const std::function<void()>& kernel);
void sync_threads();
uint64_t shuffle_xor(uint64_t bits, int distance);

template <typename Value>
Value shuffle_xor_value(Value value, int distance) {
  static_assert(sizeof(Value) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  bits = shuffle_xor(bits, distance);
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace emulated

namespace fsdp {

template <typename... Parameters, typename... Arguments>
void start_kernel(void (*kernel)(Parameters...), int64_t blocks, int threads, cudaStream_t,
                  Arguments... arguments) {
  emulated::run_grid(blocks, threads, [&] { kernel(arguments...); });
}

}  // namespace fsdp

// CUDA's keywords for a C++ compiler. Shared memory is static, so all blocks use the same.
#undef __global__
#undef __device__
#undef __shared__
#undef __launch_bounds__
#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
#define threadIdx emulated::thread_index
#define blockIdx emulated::block_index
#define gridDim emulated::grid_size
#define __syncthreads emulated::sync_threads
#define __shfl_xor_sync(lanes, value, distance) \
  (static_cast<void>(lanes), emulated::shuffle_xor_value(value, distance))
#define cudaGetLastError() cudaSuccess
