// Allocates tensors of the CPU and of plans, and counts their bytes. A limit acts like a full GPU.
#include "trainer/memory/counting_allocator.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>

#include "contract/record/host_memory.h"

namespace fsdp {
namespace {

constexpr size_t kAlignment = 64;
// Stored before the data.
struct Header {
  CountedAllocation counted;
  size_t bytes;  // of the data
};
constexpr size_t kHeaderBytes = HostHeap::kHeaderBytes;
static_assert(kHeaderBytes == kAlignment);
static_assert(sizeof(Header) <= kHeaderBytes);

Header& header_of(void* data) {
  return *reinterpret_cast<Header*>(static_cast<std::byte*>(data) - kHeaderBytes);
}

#ifdef __SANITIZE_ADDRESS__
constexpr bool kHasHeap = false;  // the sanitizer only watches blocks of malloc
#else
constexpr bool kHasHeap = true;
#endif

// libtorch's operators wrap numbers as host tensors, even for a GPU. They are no device memory.
constexpr size_t kNumberBytes = sizeof(double);

constexpr int64_t kTrackedFromBytes = 64 << 10;  // smaller ones explain no lack of memory

std::string in_mib(int64_t bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  return text.data();
}

}  // namespace

MemoryChange memory_change(uintptr_t address, const CountedAllocation& allocation,
                           bool is_release) {
  const MemoryLabel& label = allocation.label;
  return {.address = static_cast<int64_t>(address),
          .bytes = allocation.bytes,
          .is_release = is_release,
          .use = label.use,
          .phase = label.phase,
          .unit = known_unit(label.unit),
          .pool = label.pool};
}

int64_t AllocationCounter::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return allocated_bytes_;
}

AllocationPeak AllocationCounter::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

void AllocationCounter::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = {.bytes = allocated_bytes_, .label = MemoryScope::current(), .by_use = by_use_};
  large_at_refusal_.clear();
}

void AllocationCounter::set_limit(int64_t bytes, std::string_view name) {
  const std::lock_guard lock(mutex_);
  limit_bytes_ = bytes;
  limit_name_ = (name.empty() ? "" : ", ") + std::string(name);
}

int64_t AllocationCounter::limit_bytes() const {
  const std::lock_guard lock(mutex_);
  return limit_bytes_;
}

void AllocationCounter::set_observer(Observer observer) {
  const std::lock_guard lock(mutex_);
  observer_ = std::move(observer);
}

CountedAllocation AllocationCounter::count(size_t bytes, bool with_numbers) {
  if (bytes <= (with_numbers ? 0 : kNumberBytes)) return {};
  const CountedAllocation allocation{.bytes = static_cast<int64_t>(bytes),
                                     .is_of_device = !UncountedMemory::is_on(),
                                     .label = MemoryScope::current()};
  if (!allocation.is_of_device) return allocation;
  {
    const std::lock_guard lock(mutex_);
    const int64_t now = allocated_bytes_ + allocation.bytes;
    if (allocation.bytes > 0 && (limit_bytes_ == 0 || now <= limit_bytes_)) {
      allocated_bytes_ = now;
      by_use_[allocation.label.use] += allocation.bytes;
      if (now > peak_.bytes) peak_ = {now, allocation.label, by_use_};
      return allocation;
    }
  }
  fail(bytes);
}

void AllocationCounter::uncount(const CountedAllocation& allocation) {
  if (!allocation.is_of_device) return;
  const std::lock_guard lock(mutex_);
  allocated_bytes_ -= allocation.bytes;
  by_use_[allocation.label.use] -= allocation.bytes;
}

void AllocationCounter::observe(uintptr_t id, const CountedAllocation& allocation,
                                bool is_release) {
  const std::lock_guard lock(mutex_);
  if (allocation.is_of_device && allocation.bytes >= kTrackedFromBytes) {
    is_release ? void(large_.erase(id)) : void(large_.emplace(id, allocation));
  }
  if (observer_ && allocation.bytes != 0) observer_(id, allocation, is_release);
}

void AllocationCounter::note_refusal() {
  const std::lock_guard lock(mutex_);
  large_at_refusal_.clear();
  for (const auto& [id, allocation] : large_) large_at_refusal_.push_back(allocation);
}

std::vector<CountedAllocation> AllocationCounter::large_at_refusal() const {
  const std::lock_guard lock(mutex_);
  return large_at_refusal_;
}

void AllocationCounter::fail(size_t bytes) {
  note_refusal();
  const int64_t limit = limit_bytes();
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CPU out of memory. Tried to allocate ",
                   in_mib(static_cast<int64_t>(bytes)), "; limit ",
                   limit == 0 ? std::string(kRefusedBySystem) : in_mib(limit) + limit_name_, ", ",
                   in_mib(allocated_bytes()), " allocated");
}

void CountingAllocator::install() {
  // The largest threshold that glibc accepts. Every mapped buffer starts with page faults, so only
  // the largest buffers are mapped.
  mallopt(M_MMAP_THRESHOLD, HostHeap::kMappedFromBytes);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  c10::SetAllocator(c10::DeviceType::CPU, this);
  if (!kHasHeap || heap_bytes_ != 0) return;
  // Reserves addresses only, as many as blocks and holes could ever need.
  heap_bytes_ = 2 * sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  void* begin = mmap(nullptr, heap_bytes_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin != MAP_FAILED) heap_begin_ = static_cast<std::byte*>(begin);
}

std::byte* CountingAllocator::take_block(size_t bytes) {
  const auto block_bytes = static_cast<int64_t>(bytes + kHeaderBytes);
  if (heap_begin_ != nullptr && HostHeap::holds(block_bytes)) {
    const std::lock_guard lock(heap_mutex_);
    const int64_t address = heap_.take(block_bytes);
    if (address + block_bytes <= heap_bytes_) return heap_begin_ + address;
    heap_.give(address, block_bytes);
  }
  void* block = nullptr;
  if (static_cast<int64_t>(bytes) < 0) return nullptr;
  return posix_memalign(&block, kAlignment, bytes + kHeaderBytes) == 0
             ? static_cast<std::byte*>(block)
             : nullptr;
}

void CountingAllocator::give_block(std::byte* block, size_t bytes) {
  if (heap_begin_ == nullptr || block < heap_begin_ || block >= heap_begin_ + heap_bytes_) {
    return std::free(block);
  }
  const std::lock_guard lock(heap_mutex_);
  heap_.give(block - heap_begin_, static_cast<int64_t>(bytes + kHeaderBytes));
}

c10::DataPtr CountingAllocator::allocate(size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &release, cpu};
  const CountedAllocation counted = count(bytes);
  std::byte* const block = take_block(bytes);
  if (block == nullptr) {
    uncount(counted);
    fail(bytes);
  }
  void* data = block + kHeaderBytes;
  header_of(data) = {.counted = counted, .bytes = bytes};
  observe(reinterpret_cast<uintptr_t>(data), counted, /*is_release=*/false);
  return {data, data, &release, cpu};
}

void CountingAllocator::adopt(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  if (storage.data_ptr().get_deleter() != &release || storage.data() == nullptr) return;
  CountedAllocation& counted = header_of(storage.mutable_data()).counted;
  if (counted.bytes == 0 || counted.is_of_device) return;
  const auto id = reinterpret_cast<uintptr_t>(storage.data());
  observe(id, counted, /*is_release=*/true);
  counted = count(storage.nbytes());
  observe(id, counted, /*is_release=*/false);
}

void CountingAllocator::release(void* data) {
  if (data == nullptr) return;
  const Header header = header_of(data);
  instance().uncount(header.counted);
  instance().observe(reinterpret_cast<uintptr_t>(data), header.counted, /*is_release=*/true);
  instance().give_block(static_cast<std::byte*>(data) - kHeaderBytes, header.bytes);
}

c10::DeleterFnPtr CountingAllocator::raw_deleter() const { return &release; }

void CountingAllocator::copy_data(void* destination, const void* source, size_t bytes) const {
  default_copy_data(destination, source, bytes);
}

void MetaAllocator::install() { c10::SetAllocator(c10::DeviceType::Meta, this); }

c10::DataPtr MetaAllocator::allocate(size_t bytes) {
  auto allocation = std::make_unique<CountedAllocation>(count(bytes, with_numbers_));
  observe(reinterpret_cast<uintptr_t>(allocation.get()), *allocation, /*is_release=*/false);
  return {nullptr, allocation.release(), &release, c10::Device(c10::DeviceType::Meta)};
}

void MetaAllocator::release(void* context) {
  const std::unique_ptr<CountedAllocation> allocation(static_cast<CountedAllocation*>(context));
  instance().uncount(*allocation);
  instance().observe(reinterpret_cast<uintptr_t>(context), *allocation, /*is_release=*/true);
}

c10::DeleterFnPtr MetaAllocator::raw_deleter() const { return nullptr; }

void MetaAllocator::copy_data(void*, const void*, size_t) const {}

}  // namespace fsdp
