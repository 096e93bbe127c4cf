// Device memory, registered host memory and copies of the fake runtime.
#include "tests/fakes/cuda/memory.h"

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

constexpr size_t kAddressBytes = size_t{64} << 40;
constexpr uintptr_t kHostPageBytes = 4096;

std::recursive_mutex mutex;

// Returns "20" if the variable is "1:20" and this is rank 1; empty for other ranks.
std::string of_this_rank(const char* variable) {
  const char* text = std::getenv(variable);
  const char* rank = std::getenv("RANK");
  if (text == nullptr || std::atoi(text) != std::atoi(rank == nullptr ? "0" : rank)) return "";
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

struct FullIn {
  std::string operation;
  int first;  // the number of the first call that fails, from 1
};

const FullIn& full_in() {
  static const FullIn found = [] {
    const std::string text = of_this_rank("FAKE_CUDA_FULL_IN");
    const size_t at = text.find('@');
    return FullIn{text.substr(0, at), at == text.npos ? 1 : std::stoi(text.substr(at + 1))};
  }();
  return found;
}

bool is_full_now() {
  static int calls = 0;
  return ++calls >= full_in().first;
}

struct Memory {
  size_t bytes;
  int device;
};

struct Pinned {
  size_t bytes;
  bool is_allocated;  // by cudaHostAlloc
};

size_t memory_used_bytes = 0;
// By first address. They outlive libtorch, which frees some at exit.
std::map<uint64_t, Memory>& memory = *new std::map<uint64_t, Memory>;
std::map<uint64_t, Memory>& allocations = *new std::map<uint64_t, Memory>;  // by cudaMalloc
std::map<uintptr_t, Pinned>& pinned = *new std::map<uintptr_t, Pinned>;

// Reserves addresses for device memory. No host memory has them, and touching one ends the program.
uint64_t first_address() {
  using fsdp::fake_cuda::kPageBytes;
  static void* const addresses =
      mmap(nullptr, kAddressBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (addresses == MAP_FAILED) std::abort();
  return (reinterpret_cast<uint64_t>(addresses) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// Returns the range that holds `address`, or the end.
template <typename Ranges>
auto find_range(Ranges& ranges, uint64_t address) {
  const auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return ranges.end();
  const auto before = std::prev(after);
  return address - before->first < before->second.bytes ? before : ranges.end();
}

}  // namespace

namespace fsdp::fake_cuda {

void set_memory_bytes(int64_t bytes) { memory_bytes() = static_cast<size_t>(bytes); }
int64_t used_bytes() { return static_cast<int64_t>(memory_used_bytes); }
bool is_full_in(const std::string& function) {
  const std::lock_guard lock(mutex);
  return full_in().operation == function && is_full_now();
}

uint64_t take_addresses(size_t bytes) {
  const std::lock_guard lock(mutex);
  static uint64_t next_address = first_address();
  const uint64_t address = next_address;
  next_address += (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (next_address > first_address() + kAddressBytes - kPageBytes) std::abort();
  return address;
}

bool take_memory(size_t bytes) {
  const std::lock_guard lock(mutex);
  const bool is_in = std::ranges::count(operations(), full_in().operation) > 0;
  if ((is_in && is_full_now()) || memory_used_bytes + bytes > memory_bytes()) return false;
  memory_used_bytes += bytes;
  return true;
}

void give_memory(size_t bytes) {
  const std::lock_guard lock(mutex);
  memory_used_bytes -= bytes;
}

void add_memory(uint64_t address, size_t bytes, int device) {
  const std::lock_guard lock(mutex);
  memory[address] = {bytes, device};
}

void remove_memory(uint64_t address) {
  const std::lock_guard lock(mutex);
  memory.erase(address);
}

bool is_device_memory(const void* address) {
  return reinterpret_cast<uint64_t>(address) - first_address() < kAddressBytes - kPageBytes;
}

std::optional<int> device_of(const void* begin, size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto address = reinterpret_cast<uint64_t>(begin);
  auto range = find_range(memory, address);
  if (range == memory.end()) return std::nullopt;
  const int device = range->second.device;
  while (range->first + range->second.bytes < address + bytes) {  // goes on in the next range
    const uint64_t end = range->first + range->second.bytes;
    if (++range == memory.end() || range->first != end || range->second.device != device) {
      return std::nullopt;
    }
  }
  return device;
}

bool is_pinned_memory(const void* address) {
  const std::lock_guard lock(mutex);
  return find_range(pinned, reinterpret_cast<uintptr_t>(address)) != pinned.end();
}

}  // namespace fsdp::fake_cuda

using fsdp::fake_cuda::device_of;
using fsdp::fake_cuda::failed;
using fsdp::fake_cuda::is_device_memory;
using fsdp::fake_cuda::is_pinned_memory;

// Refuses memory of which a page is registered.
static cudaError_t pin(void* begin, size_t bytes, bool is_allocated) {
  const std::lock_guard lock(mutex);
  const auto first = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t page = first / kHostPageBytes * kHostPageBytes;
  const uintptr_t end = (first + bytes + kHostPageBytes - 1) / kHostPageBytes * kHostPageBytes;
  const auto next = pinned.lower_bound(page);
  const bool overlaps_next = next != pinned.end() && next->first < end;
  if (overlaps_next || find_range(pinned, page) != pinned.end()) {
    return failed(cudaErrorHostMemoryAlreadyRegistered);
  }
  pinned.emplace(first, Pinned{bytes, is_allocated});
  return cudaSuccess;
}

static cudaError_t unpin(void* begin, bool is_allocated, cudaError_t refusal) {
  const std::lock_guard lock(mutex);
  const auto found = pinned.find(reinterpret_cast<uintptr_t>(begin));
  if (found == pinned.end() || found->second.is_allocated != is_allocated) return failed(refusal);
  fsdp::fake_cuda::let_go(begin, found->second.bytes);
  pinned.erase(found);
  return cudaSuccess;
}

// True if these bytes may be copied or set: device memory that is allocated, or host memory of
// which all or nothing is registered.
static bool is_whole(const void* begin, size_t bytes) {
  if (begin == nullptr) return false;
  if (is_device_memory(begin)) return device_of(begin, bytes).has_value();
  const std::lock_guard lock(mutex);
  const auto first = reinterpret_cast<uintptr_t>(begin);
  const auto range = find_range(pinned, first);
  if (range != pinned.end()) return first + bytes <= range->first + range->second.bytes;
  const auto next = pinned.lower_bound(first);
  return next == pinned.end() || next->first >= first + bytes;
}

static bool fits(cudaMemcpyKind kind, const void* to, const void* from) {
  const bool is_to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool is_from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind == cudaMemcpyDefault) return true;
  return is_device_memory(to) == is_to_device && is_device_memory(from) == is_from_device;
}

// Copies from the device write zeros.
static cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault || !fits(kind, to, from)) {
    return failed(cudaErrorInvalidMemcpyDirection);
  }
  if (!is_whole(to, bytes) || !is_whole(from, bytes)) return failed(cudaErrorInvalidValue);
  if (is_device_memory(to)) return cudaSuccess;
  if (is_device_memory(from)) {
    std::memset(to, 0, bytes);
  } else {
    std::memmove(to, from, bytes);
  }
  return cudaSuccess;
}

extern "C" {

cudaError_t cudaMalloc(void** address, size_t bytes) {
  using namespace fsdp::fake_cuda;
  if (address == nullptr) return failed(cudaErrorInvalidValue);
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (!take_memory(bytes)) return failed(cudaErrorMemoryAllocation);
  const std::lock_guard lock(mutex);
  const uint64_t first = take_addresses(bytes + kPageBytes);  // nothing follows it
  *address = reinterpret_cast<void*>(first);
  allocations[first] = {bytes, current_device()};
  add_memory(first, bytes, current_device());
  return cudaSuccess;
}

cudaError_t cudaFree(void* address) {
  const std::lock_guard lock(mutex);
  if (address == nullptr) return cudaSuccess;
  const auto found = allocations.find(reinterpret_cast<uint64_t>(address));
  if (found == allocations.end()) return failed(cudaErrorInvalidValue);
  fsdp::fake_cuda::give_memory(found->second.bytes);
  fsdp::fake_cuda::remove_memory(found->first);
  allocations.erase(found);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(mutex);
  *free = memory_bytes() - memory_used_bytes;
  *total = static_cast<size_t>(fsdp::fake_cuda::device_bytes());
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned int flags) {
  constexpr unsigned int kKnown =
      cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if (address == nullptr || (flags & ~kKnown) != 0) return failed(cudaErrorInvalidValue);
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  *address = std::aligned_alloc(kHostPageBytes,
                                (bytes + kHostPageBytes - 1) / kHostPageBytes * kHostPageBytes);
  return pin(*address, bytes, /*is_allocated=*/true);
}

cudaError_t cudaFreeHost(void* address) {
  if (address == nullptr) return cudaSuccess;
  const cudaError_t error = unpin(address, /*is_allocated=*/true, cudaErrorInvalidValue);
  if (error == cudaSuccess) std::free(address);
  return error;
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned int flags) {
  constexpr unsigned int kKnown = cudaHostRegisterPortable | cudaHostRegisterMapped |
                                  cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;
  if (address == nullptr || bytes == 0 || (flags & ~kKnown) != 0) {
    return failed(cudaErrorInvalidValue);
  }
  if (fsdp::fake_cuda::is_full_in("cudaHostRegister")) return failed(cudaErrorMemoryAllocation);
  const uintptr_t first = reinterpret_cast<uintptr_t>(address) / kHostPageBytes * kHostPageBytes;
  const size_t length = reinterpret_cast<uintptr_t>(address) + bytes - first;
  std::vector<unsigned char> is_resident((length + kHostPageBytes - 1) / kHostPageBytes);
  const bool is_mapped = mincore(reinterpret_cast<void*>(first), length, is_resident.data()) == 0;
  if (!is_mapped || is_device_memory(address)) return failed(cudaErrorInvalidValue);
  return pin(address, bytes, /*is_allocated=*/false);
}

cudaError_t cudaHostUnregister(void* address) {
  if (address == nullptr) return failed(cudaErrorInvalidValue);
  return unpin(address, /*is_allocated=*/false, cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  if (attributes == nullptr) return failed(cudaErrorInvalidValue);
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  cudaGetDevice(&attributes->device);
  if (const auto device = device_of(address, 1)) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = *device;
    attributes->devicePointer = const_cast<void*>(address);
  } else if (is_pinned_memory(address)) {
    attributes->type = cudaMemoryTypeHost;
    attributes->devicePointer = attributes->hostPointer = const_cast<void*>(address);
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy(to, from, bytes, kind);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (!device_of(stream)) return failed(cudaErrorInvalidResourceHandle);
  // Only pinned host memory is recorded. Pageable memory is copied before the call returns.
  std::vector<fsdp::fake_cuda::Access> accesses;
  if (is_pinned_memory(to)) accesses.push_back({to, bytes, /*is_write=*/true});
  if (is_pinned_memory(from)) accesses.push_back({from, bytes, /*is_write=*/false});
  if (!accesses.empty()) fsdp::fake_cuda::issue(stream, "a copy", accesses);
  return copy(to, from, bytes, kind);
}

cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) {
  return cudaSuccess;
}

cudaError_t cudaMemset(void* address, int value, size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  const bool is_known = is_device_memory(address) || is_pinned_memory(address);
  if (!is_known || !is_whole(address, bytes)) return failed(cudaErrorInvalidValue);
  if (!is_device_memory(address)) std::memset(address, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  if (!device_of(stream)) return failed(cudaErrorInvalidResourceHandle);
  return cudaMemset(address, value, bytes);
}

cudaError_t cudaGetSymbolAddress(void** address, const void*) { return cudaMalloc(address, 1); }

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned int,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  if (name == nullptr || function == nullptr) return failed(cudaErrorInvalidValue);
  *function = fsdp::fake_cuda::driver_function(name);
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(name, function, CUDA_VERSION, flags, result);
}

}  // extern "C"
