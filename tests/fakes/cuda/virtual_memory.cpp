// The driver's virtual memory: handles of memory, addresses, and their mappings. libtorch looks up
// these functions by name.
#include <cuda.h>

#include <map>
#include <mutex>
#include <string>

#include "tests/fakes/cuda/devices.h"
#include "tests/fakes/cuda/memory.h"

namespace {

using namespace fsdp::fake_cuda;

struct Handle {
  size_t bytes;
  int device;
  bool is_released = false;
  int mappings = 0;
};

struct Mapping {
  size_t bytes;
  CUmemGenericAllocationHandle handle;
};

std::mutex mutex;
// They outlive libtorch, which frees some at exit.
auto& handles = *new std::map<CUmemGenericAllocationHandle, Handle>;
auto& reservations = *new std::map<CUdeviceptr, size_t>;
auto& mappings = *new std::map<CUdeviceptr, Mapping>;

bool is_whole_pages(size_t bytes) { return bytes > 0 && bytes % kPageBytes == 0; }

// Memory is given back when its handle is released and no addresses are mapped to it.
void give_back(CUmemGenericAllocationHandle number) {
  const Handle& handle = handles.at(number);
  if (!handle.is_released || handle.mappings > 0) return;
  give_memory(handle.bytes);
  handles.erase(number);
}

CUresult create(CUmemGenericAllocationHandle* number, size_t bytes, const CUmemAllocationProp* how,
                unsigned long long flags) {
  if (number == nullptr || how == nullptr || flags != 0 || !is_whole_pages(bytes) ||
      how->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!is_device(how->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (how->requestedHandleTypes == CU_MEM_HANDLE_TYPE_FABRIC) return CUDA_ERROR_NOT_PERMITTED;
  if (!take_memory(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard lock(mutex);
  static CUmemGenericAllocationHandle made = 0;
  handles[*number = ++made] = {bytes, how->location.id};
  return CUDA_SUCCESS;
}

CUresult release(CUmemGenericAllocationHandle number) {
  const std::lock_guard lock(mutex);
  const auto found = handles.find(number);
  if (found == handles.end() || found->second.is_released) return CUDA_ERROR_INVALID_VALUE;
  found->second.is_released = true;
  give_back(number);
  return CUDA_SUCCESS;
}

CUresult reserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr,
                 unsigned long long flags) {
  if (address == nullptr || !is_whole_pages(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(mutex);
  reservations[*address = take_addresses(bytes)] = bytes;
  return CUDA_SUCCESS;
}

CUresult free_addresses(CUdeviceptr address, size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto found = reservations.find(address);
  const auto mapped = mappings.lower_bound(address);
  const bool is_mapped = mapped != mappings.end() && mapped->first < address + bytes;
  if (found == reservations.end() || found->second != bytes || is_mapped) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  reservations.erase(found);
  return CUDA_SUCCESS;
}

CUresult map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle number,
             unsigned long long flags) {
  const std::lock_guard lock(mutex);
  const auto handle = handles.find(number);
  const auto after = reservations.upper_bound(address);
  const bool is_reserved = after != reservations.begin() &&
                           address + bytes <= std::prev(after)->first + std::prev(after)->second;
  const auto next = mappings.upper_bound(address);
  const bool overlaps_next = next != mappings.end() && next->first < address + bytes;
  const bool overlaps_last =
      next != mappings.begin() && std::prev(next)->first + std::prev(next)->second.bytes > address;
  if (handle == handles.end() || handle->second.is_released || handle->second.bytes != bytes ||
      offset != 0 || flags != 0 || address % kPageBytes != 0 || !is_reserved || overlaps_next ||
      overlaps_last) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  mappings[address] = {bytes, number};
  ++handle->second.mappings;
  return CUDA_SUCCESS;
}

// Calls visit(mapping) for the mappings that are these bytes. Returns false if there are none.
template <typename Visit>
bool for_each_mapping(CUdeviceptr address, size_t bytes, Visit visit) {
  const CUdeviceptr end = address + bytes;
  for (CUdeviceptr next = address; next < end; next += mappings.at(next).bytes) {
    const auto found = mappings.find(next);
    if (found == mappings.end() || next + found->second.bytes > end) return false;
  }
  for (auto at = mappings.find(address); at != mappings.end() && at->first < end;) visit(*at++);
  return bytes > 0;
}

CUresult unmap(CUdeviceptr address, size_t bytes) {
  const std::lock_guard lock(mutex);
  const bool is_mapped = for_each_mapping(address, bytes, [](const auto& mapping) {
    const CUmemGenericAllocationHandle number = mapping.second.handle;
    remove_memory(mapping.first);
    mappings.erase(mapping.first);
    --handles.at(number).mappings;
    give_back(number);
  });
  return is_mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                    size_t count) {
  if (access == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(mutex);
  const bool is_mapped = for_each_mapping(address, bytes, [](const auto& mapping) {
    add_memory(mapping.first, mapping.second.bytes, handles.at(mapping.second.handle).device);
  });
  return is_mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult not_faked() { return CUDA_ERROR_NOT_SUPPORTED; }

template <class Function>
void* pointer(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

namespace fsdp::fake_cuda {

void* driver_function(const char* name) {
  static const std::map<std::string, void*> functions = {
      {"cuMemCreate", pointer(create)},
      {"cuMemRelease", pointer(release)},
      {"cuMemAddressReserve", pointer(reserve)},
      {"cuMemAddressFree", pointer(free_addresses)},
      {"cuMemMap", pointer(map)},
      {"cuMemUnmap", pointer(unmap)},
      {"cuMemSetAccess", pointer(set_access)},
      {"cuDeviceGetAttribute", pointer(cuDeviceGetAttribute)},
      {"cuDevicePrimaryCtxGetState", pointer(cuDevicePrimaryCtxGetState)},
  };
  const auto found = functions.find(name);
  return found == functions.end() ? pointer(not_faked) : found->second;
}

}  // namespace fsdp::fake_cuda

extern "C" {

CUresult cuDeviceGet(CUdevice* device, int number) {
  if (!is_device(number)) return CUDA_ERROR_INVALID_DEVICE;
  *device = number;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
  return CUDA_SUCCESS;
}

// Every process has a context on its GPU.
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* is_active) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *is_active = 1;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  static char something;
  *context = reinterpret_cast<CUcontext>(&something);
  return CUDA_SUCCESS;
}

}  // extern "C"
