#include "tests/fakes/cuda.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <map>
#include <string>

// Functions of a program come before those of its libraries, so that these replace libcudart's,
// also for libtorch.
namespace {

constexpr uint64_t kPageBytes = uint64_t{2} << 20;  // the driver's unit, as on every GPU

size_t memory_bytes = size_t{1} << 50;
size_t memory_used_bytes = 0;
int current_device = 0;
uint64_t next_address = kPageBytes;
std::map<void*, size_t> allocations;
cudaError_t last_error = cudaSuccess;

uint64_t take_addresses(size_t bytes) {
  const uint64_t address = next_address;
  next_address += (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  return address;
}

bool take_memory(size_t bytes) {
  if (memory_used_bytes + bytes > memory_bytes) return false;
  memory_used_bytes += bytes;
  return true;
}

// The driver's functions, which have no names of their own here. A handle is its size.
CUresult create(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* how,
                unsigned long long) {
  if (how->requestedHandleTypes == CU_MEM_HANDLE_TYPE_FABRIC) return CUDA_ERROR_NOT_PERMITTED;
  if (!take_memory(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = bytes;
  return CUDA_SUCCESS;
}

CUresult release(CUmemGenericAllocationHandle handle) {
  memory_used_bytes -= handle;
  return CUDA_SUCCESS;
}

CUresult reserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  *address = take_addresses(bytes);
  return CUDA_SUCCESS;
}

CUresult attribute(int* value, CUdevice_attribute, CUdevice) {
  *value = 0;
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
      {"cuDeviceGetAttribute", pointer(attribute)},
  };
  const auto found = functions.find(name);
  return found == functions.end() ? pointer(not_faked) : found->second;
}

}  // namespace

namespace fsdp::fake_cuda {

void set_memory_bytes(int64_t bytes) { memory_bytes = static_cast<size_t>(bytes); }
int64_t used_bytes() { return static_cast<int64_t>(memory_used_bytes); }

}  // namespace fsdp::fake_cuda

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = fsdp::fake_cuda::kGpus;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = cudaDeviceProp{};
  std::strcpy(properties->name, "Fake GPU");
  properties->totalGlobalMem = static_cast<size_t>(fsdp::fake_cuda::kDeviceBytes);
  properties->major = 7 + device;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  if (!take_memory(bytes)) return last_error = cudaErrorMemoryAllocation;
  *memory = reinterpret_cast<void*>(take_addresses(bytes));
  allocations[*memory] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  const auto found = allocations.find(memory);
  if (found == allocations.end()) return last_error = cudaErrorInvalidValue;
  memory_used_bytes -= found->second;
  allocations.erase(found);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = memory_bytes - memory_used_bytes;
  *total = static_cast<size_t>(fsdp::fake_cuda::kDeviceBytes);
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned int,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = driver_function(name);
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

}  // extern "C"
