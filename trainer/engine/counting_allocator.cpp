#include "trainer/engine/counting_allocator.h"

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

std::string in_mib(int64_t bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  return text.data();
}

}  // namespace

thread_local bool CountingAllocator::is_for_host_ = false;

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

void CountingAllocator::reset_peak() {
  allocated_bytes_max_.store(allocated_bytes(), std::memory_order_relaxed);
}

c10::DataPtr CountingAllocator::allocate(size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &release, cpu};

  const int64_t size = is_for_host_ ? 0 : static_cast<int64_t>(bytes);
  const int64_t now = allocated_bytes_.fetch_add(size, std::memory_order_relaxed) + size;
  const int64_t limit = limit_bytes();
  void* block = nullptr;
  if (size < 0 || (limit != 0 && size > 0 && now > limit) ||
      posix_memalign(&block, kAlignment, bytes + kHeaderBytes) != 0) {
    allocated_bytes_.fetch_sub(size, std::memory_order_relaxed);
    fail(bytes);
  }
  int64_t peak = allocated_bytes_max();
  while (now > peak && !allocated_bytes_max_.compare_exchange_weak(peak, now)) {
  }
  *static_cast<int64_t*>(block) = size;
  void* data = static_cast<std::byte*>(block) + kHeaderBytes;
  return {data, data, &release, cpu};
}

void CountingAllocator::release(void* data) {
  if (data == nullptr) return;
  void* block = static_cast<std::byte*>(data) - kHeaderBytes;
  instance().allocated_bytes_.fetch_sub(*static_cast<int64_t*>(block), std::memory_order_relaxed);
  std::free(block);
}

void CountingAllocator::fail(size_t bytes) const {
  const int64_t limit = limit_bytes();
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CPU out of memory. Tried to allocate ",
                   in_mib(static_cast<int64_t>(bytes)), "; limit ",
                   limit == 0 ? "none, the system refused" : in_mib(limit), ", ",
                   in_mib(allocated_bytes()), " allocated");
}

c10::DeleterFnPtr CountingAllocator::raw_deleter() const { return &release; }

void CountingAllocator::copy_data(void* destination, const void* source, size_t bytes) const {
  default_copy_data(destination, source, bytes);
}

}  // namespace fsdp
