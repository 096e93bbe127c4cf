#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/state.h"

namespace {

constexpr uint64_t kPageBytes = uint64_t{2} << 20;  // the driver's unit, as on every GPU
constexpr size_t kAddressBytes = size_t{64} << 40;

std::mutex mutex;

// Returns "20" if the variable is "1:20" and this is rank 1; empty for other ranks.
std::string of_this_rank(const char* variable) {
  const char* text = std::getenv(variable);
  const char* rank = std::getenv("RANK");
  if (text == nullptr || rank == nullptr || std::atoi(text) != std::atoi(rank)) return "";
  return std::strchr(text, ':') + 1;
}

size_t free_memory_bytes() {
  const std::string free_mib = of_this_rank("FAKE_CUDA_FREE_MIB");
  return free_mib.empty() ? size_t{1} << 50 : std::stoul(free_mib) << 20;
}

size_t& memory_bytes() {
  static size_t bytes = free_memory_bytes();
  return bytes;
}

const std::string& full_in() {
  static const std::string operation = of_this_rank("FAKE_CUDA_FULL_IN");
  return operation;
}

size_t memory_used_bytes = 0;
std::map<void*, size_t> allocations;
std::map<uintptr_t, size_t> pinned;  // sizes by first address

// Reserves addresses for device memory. No host memory has them, and touching one ends the program.
uint64_t first_address() {
  static void* const addresses =
      mmap(nullptr, kAddressBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (addresses == MAP_FAILED) std::abort();
  return (reinterpret_cast<uint64_t>(addresses) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

uint64_t take_addresses(size_t bytes) {
  static uint64_t next_address = first_address();
  const uint64_t address = next_address;
  next_address += (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (next_address > first_address() + kAddressBytes - kPageBytes) std::abort();
  return address;
}

bool take_memory(size_t bytes) {
  const bool is_full = std::ranges::count(fsdp::fake_cuda::operations(), full_in()) > 0;
  if (is_full || memory_used_bytes + bytes > memory_bytes()) return false;
  memory_used_bytes += bytes;
  return true;
}

// Functions of the driver, which libtorch looks up by name. A handle is the size of its memory.
CUresult create(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* how,
                unsigned long long) {
  if (how->requestedHandleTypes == CU_MEM_HANDLE_TYPE_FABRIC) return CUDA_ERROR_NOT_PERMITTED;
  const std::lock_guard lock(mutex);
  if (!take_memory(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = bytes;
  return CUDA_SUCCESS;
}

CUresult release(CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(mutex);
  memory_used_bytes -= handle;
  return CUDA_SUCCESS;
}

CUresult reserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  const std::lock_guard lock(mutex);
  *address = take_addresses(bytes);
  return CUDA_SUCCESS;
}

CUresult map(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long) {
  return CUDA_SUCCESS;
}

CUresult unmap(CUdeviceptr, size_t) { return CUDA_SUCCESS; }

CUresult set_access(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) { return CUDA_SUCCESS; }

CUresult not_faked() { return CUDA_ERROR_NOT_SUPPORTED; }

template <class Function>
void* pointer(Function* function) {
  return reinterpret_cast<void*>(function);
}

void* driver_function(const std::string& name) {
  static const std::map<std::string, void*> functions = {
      {"cuMemCreate", pointer(create)},
      {"cuMemRelease", pointer(release)},
      {"cuMemAddressReserve", pointer(reserve)},
      {"cuMemAddressFree", pointer(unmap)},
      {"cuMemMap", pointer(map)},
      {"cuMemUnmap", pointer(unmap)},
      {"cuMemSetAccess", pointer(set_access)},
      {"cuDeviceGetAttribute", pointer(cuDeviceGetAttribute)},
      {"cuDevicePrimaryCtxGetState", pointer(cuDevicePrimaryCtxGetState)},
  };
  const auto found = functions.find(name);
  return found == functions.end() ? pointer(not_faked) : found->second;
}

// Copies from the device write zeros.
cudaError_t copy(void* to, const void* from, size_t bytes) {
  using fsdp::fake_cuda::is_device_memory;
  if (is_device_memory(to)) return cudaSuccess;
  if (is_device_memory(from)) {
    std::memset(to, 0, bytes);
  } else {
    std::memmove(to, from, bytes);
  }
  return cudaSuccess;
}

}  // namespace

namespace fsdp::fake_cuda {

void set_memory_bytes(int64_t bytes) { memory_bytes() = static_cast<size_t>(bytes); }
int64_t used_bytes() { return static_cast<int64_t>(memory_used_bytes); }

bool is_device_memory(const void* address) {
  return reinterpret_cast<uint64_t>(address) - first_address() < kAddressBytes - kPageBytes;
}

bool is_pinned_memory(const void* address) {
  const std::lock_guard lock(mutex);
  const auto after = pinned.upper_bound(reinterpret_cast<uintptr_t>(address));
  if (after == pinned.begin()) return false;
  const auto [first, bytes] = *std::prev(after);
  return reinterpret_cast<uintptr_t>(address) - first < bytes;
}

}  // namespace fsdp::fake_cuda

using fsdp::fake_cuda::failed;
using fsdp::fake_cuda::is_pinned_memory;

static cudaError_t pin(void* memory, size_t bytes) {
  const std::lock_guard lock(mutex);
  const bool is_new = pinned.emplace(reinterpret_cast<uintptr_t>(memory), bytes).second;
  return is_new ? cudaSuccess : failed(cudaErrorHostMemoryAlreadyRegistered);
}

extern "C" {

CUresult cuDeviceGet(CUdevice* device, int number) {
  *device = number;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
  return CUDA_SUCCESS;
}

// Every process has a context on its GPU.
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned int* flags, int* is_active) {
  *flags = 0;
  *is_active = 1;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  static char something;
  *context = reinterpret_cast<CUcontext>(&something);
  return CUDA_SUCCESS;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const std::lock_guard lock(mutex);
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (!take_memory(bytes)) return failed(cudaErrorMemoryAllocation);
  *memory = reinterpret_cast<void*>(take_addresses(bytes));
  allocations[*memory] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  const std::lock_guard lock(mutex);
  if (memory == nullptr) return cudaSuccess;
  const auto found = allocations.find(memory);
  if (found == allocations.end()) return failed(cudaErrorInvalidValue);
  memory_used_bytes -= found->second;
  allocations.erase(found);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(mutex);
  *free = memory_bytes() - memory_used_bytes;
  *total = static_cast<size_t>(fsdp::fake_cuda::device_bytes());
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned int) {
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return pin(*memory, bytes);
}

cudaError_t cudaFreeHost(void* memory) {
  const cudaError_t error = cudaHostUnregister(memory);
  if (error == cudaSuccess) std::free(memory);
  return error;
}

cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned int) {
  return full_in() == "cudaHostRegister" ? failed(cudaErrorMemoryAllocation) : pin(memory, bytes);
}

cudaError_t cudaHostUnregister(void* memory) {
  const std::lock_guard lock(mutex);
  const auto found = pinned.find(reinterpret_cast<uintptr_t>(memory));
  if (found == pinned.end()) return failed(cudaErrorHostMemoryNotRegistered);
  fsdp::fake_cuda::let_go(memory, found->second);
  pinned.erase(found);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  *attributes = {};
  if (fsdp::fake_cuda::is_device_memory(address)) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = const_cast<void*>(address);
  } else if (is_pinned_memory(address)) {
    attributes->type = cudaMemoryTypeHost;
    attributes->devicePointer = attributes->hostPointer = const_cast<void*>(address);
  } else {
    attributes->type = cudaMemoryTypeUnregistered;
  }
  cudaGetDevice(&attributes->device);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return copy(to, from, bytes);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  // Only pinned host memory is recorded. Pageable memory is copied before the call returns.
  std::vector<fsdp::fake_cuda::Access> accesses;
  if (is_pinned_memory(to)) accesses.push_back({to, bytes, /*is_write=*/true});
  if (is_pinned_memory(from)) accesses.push_back({from, bytes, /*is_write=*/false});
  if (!accesses.empty()) fsdp::fake_cuda::issue(stream, "a copy", accesses);
  return copy(to, from, bytes);
}

cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) {
  return cudaSuccess;
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  if (!fsdp::fake_cuda::is_device_memory(memory)) std::memset(memory, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  return cudaMemset(memory, value, bytes);
}

cudaError_t cudaGetSymbolAddress(void** memory, const void*) { return cudaMalloc(memory, 1); }

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned int,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = driver_function(name);
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(name, function, CUDA_VERSION, flags, result);
}

}  // extern "C"
