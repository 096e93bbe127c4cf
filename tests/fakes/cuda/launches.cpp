// Launches of kernels on fake GPUs: nothing runs, but what a GPU refuses is refused.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/fakes/cuda/devices.h"
#include "tests/fakes/cuda/state.h"

using namespace fsdp::fake_cuda;

namespace {

struct Launch {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};

std::vector<Launch>& configured() {
  thread_local std::vector<Launch> launches;
  return launches;
}

// Libraries register their kernels before this file's variables are made.
std::mutex& kernel_mutex() {
  static std::mutex mutex;
  return mutex;
}
std::unordered_set<const void*>& kernels() {
  static std::unordered_set<const void*> registered;
  return registered;
}
// The shared memory that a kernel asked for, by kernel and device.
std::map<std::pair<const void*, int>, int>& shared_limits() {
  static std::map<std::pair<const void*, int>, int> limits;
  return limits;
}

bool is_kernel(const void* function) {
  const std::lock_guard lock(kernel_mutex());
  return kernels().contains(function);
}

int shared_limit(const void* kernel) {
  const std::lock_guard lock(kernel_mutex());
  const auto found = shared_limits().find({kernel, current_device()});
  return found == shared_limits().end() ? kSharedBytes : found->second;
}

// Returns the version of the code that runs on a GPU, of those that PyTorch's wheel for CUDA 13
// has. CUB knows no others.
int code_version(int capability) {
  constexpr int kVersions[] = {75, 80, 86, 90, 100, 120};
  const int* newer = std::ranges::upper_bound(kVersions, capability);
  return newer == kVersions ? capability : newer[-1];
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}

void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* function, char*, const char*, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  const std::lock_guard lock(kernel_mutex());
  kernels().insert(function);
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  if (!is_kernel(function)) return failed(cudaErrorInvalidDeviceFunction);
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void* stream) {
  configured().push_back({grid, block, shared_bytes, static_cast<cudaStream_t>(stream)});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  if (configured().empty()) return failed(cudaErrorMissingConfiguration);
  const Launch launch = configured().back();
  configured().pop_back();
  *grid = launch.grid;
  *block = launch.block;
  *shared_bytes = launch.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = launch.stream;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void**, size_t shared_bytes,
                             cudaStream_t stream) {
  if (!is_kernel(kernel)) return failed(cudaErrorInvalidDeviceFunction);
  if (device_of(stream) != current_device()) return failed(cudaErrorInvalidResourceHandle);
  const bool has_blocks = grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 2147483647u &&
                          grid.y <= 65535 && grid.z <= 65535;
  const bool has_threads = block.x > 0 && block.y > 0 && block.z > 0 && block.z <= 64 &&
                           size_t{block.x} * block.y * block.z <= kThreadsPerBlock;
  if (!has_blocks || !has_threads) return failed(cudaErrorInvalidConfiguration);
  if (shared_bytes > static_cast<size_t>(shared_limit(kernel))) {
    return failed(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared_bytes, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  return cudaLaunchKernel(function, config->gridDim, config->blockDim, arguments,
                          config->dynamicSmemBytes, config->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  if (!is_kernel(kernel)) return failed(cudaErrorInvalidDeviceFunction);
  *attributes = {};
  attributes->maxThreadsPerBlock = kThreadsPerBlock;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion =
      code_version(capability_of(current_device()));
  attributes->maxDynamicSharedSizeBytes = shared_limit(kernel);
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (!is_kernel(kernel)) return failed(cudaErrorInvalidDeviceFunction);
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || value > limits_of(current_device()).shared_kib_of_block << 10) {
    return failed(cudaErrorInvalidValue);
  }
  const std::lock_guard lock(kernel_mutex());
  shared_limits()[{kernel, current_device()}] = value;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* kernel,
                                                                   int block_threads, size_t,
                                                                   unsigned int) {
  if (!is_kernel(kernel)) return failed(cudaErrorInvalidDeviceFunction);
  if (block_threads <= 0) return failed(cudaErrorInvalidValue);
  const Limits limits = limits_of(current_device());
  *blocks = std::min(limits.threads / block_threads, limits.blocks);
  return cudaSuccess;
}

}  // extern "C"
