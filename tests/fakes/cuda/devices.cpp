// Fake GPUs and their properties, which follow the compute capability.
#include "tests/fakes/cuda/devices.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/state.h"

namespace fsdp::fake_cuda {
namespace {

constexpr int kMultiprocessors = 108;
constexpr int kRegisters = 64 << 10;

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

int gpu_count() {
  const char* text = std::getenv("FAKE_CUDA_GPUS");
  return text == nullptr ? 8 : std::atoi(text);
}

int64_t device_bytes() {
  const char* text = std::getenv("FAKE_CUDA_MEMORY_GIB");
  return text == nullptr ? kDeviceBytes : int64_t{std::atoi(text)} << 30;
}

cudaError_t failed(cudaError_t error) { return last_error = error; }

int& current_device() {
  thread_local int device = 0;
  return device;
}

int capability_of(int device) {
  const char* text = std::getenv("FAKE_CUDA_CAPABILITY");
  if (text == nullptr) return 70 + 10 * (device % 4);
  return 10 * std::atoi(text) + std::atoi(std::strchr(text, '.') + 1);
}

// The CUDA programming guide's table "Technical Specifications per Compute Capability".
Limits limits_of(int device) {
  switch (capability_of(device)) {
    case 70:
      return {.shared_kib = 96, .shared_kib_of_block = 96, .threads = 2048, .blocks = 32};
    case 75:
      return {.shared_kib = 64, .shared_kib_of_block = 64, .threads = 1024, .blocks = 16};
    case 80:
      return {.shared_kib = 164, .shared_kib_of_block = 163, .threads = 2048, .blocks = 32};
    case 86:
      return {.shared_kib = 100, .shared_kib_of_block = 99, .threads = 1536, .blocks = 16};
    case 89:
    case 120:
      return {.shared_kib = 100, .shared_kib_of_block = 99, .threads = 1536, .blocks = 24};
    default:
      return {.shared_kib = 228, .shared_kib_of_block = 227, .threads = 2048, .blocks = 32};
  }
}

bool is_device(int device) { return device >= 0 && device < gpu_count(); }

}  // namespace fsdp::fake_cuda

using namespace fsdp::fake_cuda;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = gpu_count();
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!is_device(device)) return failed(cudaErrorInvalidDevice);
  current_device() = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!is_device(device)) return failed(cudaErrorInvalidDevice);
  const Limits limits = limits_of(device);
  *properties = cudaDeviceProp{};
  std::strcpy(properties->name, "Fake GPU");
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  properties->totalGlobalMem = static_cast<size_t>(device_bytes());
  properties->major = capability_of(device) / 10;
  properties->minor = capability_of(device) % 10;
  properties->pciBusID = device + 1;
  properties->warpSize = 32;
  properties->multiProcessorCount = kMultiprocessors;
  properties->maxThreadsPerBlock = kThreadsPerBlock;
  properties->maxThreadsPerMultiProcessor = limits.threads;
  properties->maxBlocksPerMultiProcessor = limits.blocks;
  properties->regsPerBlock = properties->regsPerMultiprocessor = kRegisters;
  properties->sharedMemPerBlock = kSharedBytes;
  properties->sharedMemPerBlockOptin = limits.shared_kib_of_block << 10;
  properties->sharedMemPerMultiprocessor = limits.shared_kib << 10;
  properties->l2CacheSize = 40 << 20;
  const int largest_block[] = {kThreadsPerBlock, kThreadsPerBlock, 64};
  const int largest_grid[] = {2147483647, 65535, 65535};
  std::memcpy(properties->maxThreadsDim, largest_block, sizeof(largest_block));
  std::memcpy(properties->maxGridSize, largest_grid, sizeof(largest_grid));
  properties->unifiedAddressing = 1;
  properties->concurrentKernels = 1;
  properties->cooperativeLaunch = 1;
  properties->canMapHostMemory = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!is_device(device)) return failed(cudaErrorInvalidDevice);
  const Limits limits = limits_of(device);
  const std::map<cudaDeviceAttr, int> values = {
      {cudaDevAttrComputeCapabilityMajor, capability_of(device) / 10},
      {cudaDevAttrComputeCapabilityMinor, capability_of(device) % 10},
      {cudaDevAttrMultiProcessorCount, kMultiprocessors},
      {cudaDevAttrMaxThreadsPerBlock, kThreadsPerBlock},
      {cudaDevAttrMaxThreadsPerMultiProcessor, limits.threads},
      {cudaDevAttrMaxSharedMemoryPerBlock, kSharedBytes},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, limits.shared_kib_of_block << 10},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, limits.shared_kib << 10},
      {cudaDevAttrMaxRegistersPerBlock, kRegisters},
      {cudaDevAttrMaxGridDimX, 2147483647},
      {cudaDevAttrMaxGridDimY, 65535},
      {cudaDevAttrMaxGridDimZ, 65535},
      {cudaDevAttrWarpSize, 32},
  };
  const auto found = values.find(attribute);
  *value = found == values.end() ? 0 : found->second;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  if (!is_device(device)) return failed(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<size_t>(size), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!is_device(device) || !is_device(peer)) return failed(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  static std::mutex mutex;
  static std::set<std::pair<int, int>> enabled;
  if (!is_device(peer) || peer == current_device()) return failed(cudaErrorInvalidDevice);
  if (flags != 0) return failed(cudaErrorInvalidValue);
  const std::lock_guard lock(mutex);
  if (enabled.emplace(current_device(), peer).second) return cudaSuccess;
  return failed(cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

}  // extern "C"
