#include "trainer/memory/counting_allocator.h"

#include <malloc.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

namespace fsdp {
namespace {

constexpr size_t kAlignment = 64;
// Holds how much of what follows is counted.
constexpr size_t kHeaderBytes = kAlignment;

// Operators of libtorch wrap numbers as tensors of the host, of a GPU's too: no memory of a device.
constexpr size_t kNumberBytes = sizeof(double);

std::string in_mib(int64_t bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  return text.data();
}

}  // namespace

void AllocationCounter::reset_peak() {
  allocated_bytes_max_.store(allocated_bytes(), std::memory_order_relaxed);
}

int64_t AllocationCounter::count(size_t bytes) {
  if (UncountedMemory::is_on() || bytes <= kNumberBytes) return 0;
  const auto size = static_cast<int64_t>(bytes);
  const int64_t now = allocated_bytes_.fetch_add(size, std::memory_order_relaxed) + size;
  const int64_t limit = limit_bytes();
  if (size < 0 || (limit != 0 && now > limit)) {
    allocated_bytes_.fetch_sub(size, std::memory_order_relaxed);
    fail(bytes);
  }
  int64_t peak = allocated_bytes_max();
  while (now > peak && !allocated_bytes_max_.compare_exchange_weak(peak, now)) {
  }
  if (observer_) observer_(size);
  return size;
}

void AllocationCounter::uncount(int64_t counted) {
  allocated_bytes_.fetch_sub(counted, std::memory_order_relaxed);
  if (observer_ && counted != 0) observer_(-counted);
}

void AllocationCounter::fail(size_t bytes) const {
  const int64_t limit = limit_bytes();
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CPU out of memory. Tried to allocate ",
                   in_mib(static_cast<int64_t>(bytes)), "; limit ",
                   limit == 0 ? "none, the system refused" : in_mib(limit), ", ",
                   in_mib(allocated_bytes()), " allocated");
}

CountingAllocator& CountingAllocator::instance() {
  static CountingAllocator allocator;
  return allocator;
}

void CountingAllocator::install() {
  // The largest that glibc takes; a mapped buffer starts with page faults each time.
  constexpr int kMmapThresholdBytes = 32 << 20;
  mallopt(M_MMAP_THRESHOLD, kMmapThresholdBytes);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  c10::SetAllocator(c10::DeviceType::CPU, this);
}

c10::DataPtr CountingAllocator::allocate(size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &release, cpu};
  const int64_t counted = count(bytes);
  void* block = nullptr;
  if (static_cast<int64_t>(bytes) < 0 ||
      posix_memalign(&block, kAlignment, bytes + kHeaderBytes) != 0) {
    uncount(counted);
    fail(bytes);
  }
  *static_cast<int64_t*>(block) = counted;
  void* data = static_cast<std::byte*>(block) + kHeaderBytes;
  return {data, data, &release, cpu};
}

void CountingAllocator::adopt(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  if (storage.data_ptr().get_deleter() != &release || storage.data() == nullptr) return;
  auto* block =
      reinterpret_cast<int64_t*>(static_cast<std::byte*>(storage.mutable_data()) - kHeaderBytes);
  if (*block == 0) *block = count(storage.nbytes());
}

void CountingAllocator::release(void* data) {
  if (data == nullptr) return;
  void* block = static_cast<std::byte*>(data) - kHeaderBytes;
  instance().uncount(*static_cast<int64_t*>(block));
  std::free(block);
}

c10::DeleterFnPtr CountingAllocator::raw_deleter() const { return &release; }

void CountingAllocator::copy_data(void* destination, const void* source, size_t bytes) const {
  default_copy_data(destination, source, bytes);
}

MetaAllocator& MetaAllocator::instance() {
  static MetaAllocator allocator;
  return allocator;
}

void MetaAllocator::install() { c10::SetAllocator(c10::DeviceType::Meta, this); }

c10::DataPtr MetaAllocator::allocate(size_t bytes) {
  // The context is what was counted, not an address.
  void* counted = reinterpret_cast<void*>(count(bytes));
  return {nullptr, counted, &release, c10::Device(c10::DeviceType::Meta)};
}

void MetaAllocator::release(void* counted) {
  instance().uncount(reinterpret_cast<int64_t>(counted));
}

c10::DeleterFnPtr MetaAllocator::raw_deleter() const { return nullptr; }

void MetaAllocator::copy_data(void*, const void*, size_t) const {}

}  // namespace fsdp
