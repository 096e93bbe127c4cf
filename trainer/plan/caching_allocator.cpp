// Replays libtorch's GPU allocator. Each function follows one of PyTorch, whose name it gives.
#include "trainer/plan/caching_allocator.h"

#include <algorithm>
#include <string>

// Comments name the function of PyTorch's c10/cuda/CUDACachingAllocator.cpp that does the same, and
// its line in 2.11.0.

namespace fsdp {
namespace {

constexpr int64_t kMib = int64_t{1} << 20;
// c10/core/AllocatorConfig.h:17-25, and line 338 for the large segment.
constexpr int64_t kRoundingBytes = 512;
constexpr int64_t kSmallMaxBytes = kMib;
constexpr int64_t kSmallSegmentBytes = 2 * kMib;
constexpr int64_t kLargeSegmentBytes = 20 * kMib;
constexpr int64_t kOwnSegmentMinBytes = 10 * kMib;
constexpr int64_t kOwnSegmentRoundingBytes = 2 * kMib;
// More than any device has.
constexpr int64_t kUnlimitedDeviceBytes = int64_t{1} << 50;

int64_t round_down(int64_t bytes, int64_t unit) { return bytes / unit * unit; }
int64_t round_up(int64_t bytes, int64_t unit) { return round_down(bytes + unit - 1, unit); }

// get_allocation_size.
int64_t segment_bytes(int64_t bytes) {
  if (bytes <= kSmallMaxBytes) return kSmallSegmentBytes;
  if (bytes < kOwnSegmentMinBytes) return kLargeSegmentBytes;
  return round_up(bytes, kOwnSegmentRoundingBytes);
}

}  // namespace

void CachingAllocator::Bytes::add(int64_t bytes) {
  now += bytes;
  max = std::max(max, now);
}

bool CachingAllocator::SmallestFirst::operator()(const Block* a, const Block* b) const {
  return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
}

int64_t CachingAllocator::Pool::page_bytes() const {
  return is_small ? kSmallSegmentBytes : kLargeSegmentBytes;
}

int64_t CachingAllocator::rounded(int64_t bytes) { return round_up(bytes, kRoundingBytes); }

// malloc (:1482) and alloc_found_block (:1651).
void CachingAllocator::allocate(int64_t id, int64_t bytes, int stream) {
  if (bytes == 0) {
    allocations_.emplace(id, nullptr);
    return;
  }
  const int64_t rounded_bytes = rounded(bytes);
  Pool& pool = pool_of(rounded_bytes, stream);
  Block* block = find_cached(pool, rounded_bytes);
  if (!block) block = take_new(pool, rounded_bytes);
  if (!block) {
    give_back_cached();
    ++retries_;
    block = take_new(pool, rounded_bytes);
  }
  if (!block) {
    throw OutOfMemory("An allocation of " + std::to_string(bytes) +
                      " bytes does not fit: the allocator can take " +
                      std::to_string(options_.memory_bytes) + " bytes, has taken " +
                      std::to_string(reserved_.now) + " and has given " +
                      std::to_string(allocated_.now) + " of them to tensors.");
  }
  if (is_splittable(*block, rounded_bytes)) {
    pool.cached.insert(split(block, rounded_bytes));
  }
  block->allocated = true;
  block->requested_bytes = bytes;
  allocated_.add(block->bytes);
  requested_.add(bytes);
  allocations_.emplace(id, block);
}

// free and free_block (:2967).
void CachingAllocator::free(int64_t id) {
  Block* block = allocations_.at(id);
  allocations_.erase(id);
  if (!block) return;
  block->allocated = false;
  allocated_.add(-block->bytes);
  requested_.add(-block->requested_bytes);
  merge(block, block->previous);
  merge(block, block->next);
  block->pool->cached.insert(block);
}

CachingAllocator::Pool& CachingAllocator::pool_of(int64_t bytes, int stream) {
  const size_t pair = 2 * static_cast<size_t>(stream);
  while (pools_.size() < pair + 2) pools_.emplace_back(pools_.size() % 2 == 0);
  return pools_[bytes <= kSmallMaxBytes ? pair : pair + 1];
}

CachingAllocator::Block* CachingAllocator::make_block(const Block& block) {
  if (unused_blocks_.empty()) return &blocks_.emplace_back(block);
  Block* made = unused_blocks_.back();
  unused_blocks_.pop_back();
  *made = block;
  return made;
}

// should_split.
bool CachingAllocator::is_splittable(const Block& block, int64_t bytes) const {
  const int64_t rest = block.bytes - bytes;
  return block.pool->is_small || options_.expandable_segments ? rest >= kRoundingBytes
                                                              : rest > kSmallMaxBytes;
}

// `block` keeps the first `bytes`. Returns the rest as a block that is in none of the pool's sets.
CachingAllocator::Block* CachingAllocator::split(Block* block, int64_t bytes) {
  Block* rest = make_block({.address = block->address + bytes,
                            .bytes = block->bytes - bytes,
                            .pool = block->pool,
                            .previous = block,
                            .next = block->next,
                            .mapped = block->mapped});
  if (rest->next) rest->next->previous = rest;
  block->next = rest;
  block->bytes = bytes;
  return rest;
}

// Returns rising addresses that are multiples of every page's size.
int64_t CachingAllocator::take_addresses(int64_t bytes) {
  const int64_t address = next_address_;
  next_address_ += round_up(bytes, kLargeSegmentBytes);
  return address;
}

bool CachingAllocator::take_memory(int64_t bytes) {
  if (options_.memory_bytes != 0 && reserved_.now + bytes > options_.memory_bytes) return false;
  reserved_.add(bytes);
  return true;
}

// get_free_block: finds the smallest block that fits. If unmapped addresses follow a block, they
// count as a part of its size.
CachingAllocator::Block* CachingAllocator::find_cached(Pool& pool, int64_t bytes) {
  const auto could_be = [](const Block* block) {
    return block->bytes + (block->next && !block->next->mapped ? block->next->bytes : 0);
  };
  auto best = pool.cached.lower_bound(bytes);
  if (best == pool.cached.end()) return nullptr;
  for (auto next = std::next(best); next != pool.cached.end() && could_be(*next) < could_be(*best);
       ++next) {
    best = next;
  }
  Block* block = *best;
  pool.cached.erase(best);
  return block;
}

// alloc_block (:3369).
CachingAllocator::Block* CachingAllocator::take_new(Pool& pool, int64_t bytes) {
  return options_.expandable_segments ? expand(pool, bytes) : take_segment(pool, bytes);
}

CachingAllocator::Block* CachingAllocator::take_segment(Pool& pool, int64_t bytes) {
  const int64_t taken_bytes = segment_bytes(bytes);
  if (!take_memory(taken_bytes)) return nullptr;
  return make_block({.address = take_addresses(taken_bytes), .bytes = taken_bytes, .pool = &pool});
}

// try_merge_blocks (:3048): `block`, which is in none of the pool's sets, takes up its neighbour.
void CachingAllocator::merge(Block* block, Block* neighbour) {
  if (!neighbour || neighbour->allocated || neighbour->mapped != block->mapped) return;
  Pool& pool = *block->pool;
  if (neighbour->mapped) {
    pool.cached.erase(neighbour);
  } else {
    pool.unmapped.erase(neighbour);
  }
  if (neighbour == block->previous) {
    block->address = neighbour->address;
    block->previous = neighbour->previous;
    if (block->previous) block->previous->next = block;
  } else {
    block->next = neighbour->next;
    if (block->next) block->next->previous = block;
  }
  block->bytes += neighbour->bytes;
  unused_blocks_.push_back(neighbour);
}

// release_cached_blocks (:3473): gives back the cached memory of every stream.
void CachingAllocator::give_back_cached() {
  for (Pool& pool : pools_) {
    if (options_.expandable_segments) {
      give_back_pages(pool);
    } else {
      give_back_segments(pool);
    }
  }
}

void CachingAllocator::give_back_segments(Pool& pool) {
  std::erase_if(pool.cached, [this](Block* block) {
    if (block->previous || block->next) return false;
    reserved_.add(-block->bytes);
    unused_blocks_.push_back(block);
    return true;
  });
}

// find_expandable_block: finds the lowest addresses where cached and unmapped blocks together are
// large enough. If there are none, makes a new segment of addresses without memory.
CachingAllocator::Block* CachingAllocator::find_expandable(Pool& pool, int64_t bytes) {
  for (Block* unmapped : pool.unmapped) {
    const bool has_memory_before = unmapped->previous && !unmapped->previous->allocated;
    Block* first = has_memory_before ? unmapped->previous : unmapped;
    int64_t free_bytes = 0;
    for (const Block* block = first; block && !block->allocated && free_bytes < bytes;
         block = block->next) {
      free_bytes += block->bytes;
    }
    if (free_bytes >= bytes) return first;
  }
  // The constructor of ExpandableSegment takes 9/8 of the device's memory as addresses. In a replay
  // without a limit, a tensor may be larger than that.
  const int64_t device_bytes =
      options_.device_bytes == 0 ? kUnlimitedDeviceBytes : options_.device_bytes;
  const int64_t bytes_of_segment =
      round_up(std::max(device_bytes + device_bytes / 8, bytes), pool.page_bytes());
  Block* segment = make_block({.address = take_addresses(bytes_of_segment),
                               .bytes = bytes_of_segment,
                               .pool = &pool,
                               .mapped = false});
  pool.unmapped.insert(segment);
  return segment;
}

// try_allocate_expandable_block (:2946).
CachingAllocator::Block* CachingAllocator::expand(Pool& pool, int64_t bytes) {
  Block* block = find_expandable(pool, bytes);
  if (!block->mapped && !map(block, std::min(block->bytes, bytes))) return nullptr;
  while (block->bytes < bytes) {
    Block* unmapped = block->next;
    if (!map(unmapped, std::min(bytes - block->bytes, unmapped->bytes))) return nullptr;
    block = unmapped;
  }
  pool.cached.erase(block);
  return block;
}

// map_block (:2865) and ExpandableSegment::map (:402): gives whole pages of memory to the start of
// an unmapped block.
bool CachingAllocator::map(Block* block, int64_t bytes) {
  Pool& pool = *block->pool;
  const int64_t mapped_bytes = round_up(bytes, pool.page_bytes());
  if (!take_memory(mapped_bytes)) return false;
  pool.unmapped.erase(block);
  if (mapped_bytes < block->bytes) pool.unmapped.insert(split(block, mapped_bytes));
  block->mapped = true;
  merge(block, block->previous);
  merge(block, block->next);
  pool.cached.insert(block);
  return true;
}

// unmap_block (:3607): takes back the whole pages of a cached block. Returns the unmapped block
// that now contains them; nullptr if there was no whole page.
CachingAllocator::Block* CachingAllocator::unmap(Block* block) {
  Pool& pool = *block->pool;
  const int64_t begin = round_up(block->address, pool.page_bytes());
  const int64_t end = round_down(block->address + block->bytes, pool.page_bytes());
  if (begin >= end) return nullptr;
  pool.cached.erase(block);
  if (begin > block->address) {
    Block* rest = split(block, begin - block->address);
    pool.cached.insert(block);
    block = rest;
  }
  if (end < block->address + block->bytes) pool.cached.insert(split(block, end - begin));
  block->mapped = false;
  reserved_.add(begin - end);
  merge(block, block->previous);
  merge(block, block->next);
  pool.unmapped.insert(block);
  return block;
}

// release_blocks and release_expandable_segment (:3489).
void CachingAllocator::give_back_pages(Pool& pool) {
  const std::vector<Block*> cached(pool.cached.begin(), pool.cached.end());
  for (Block* block : cached) {
    Block* unmapped = unmap(block);
    if (!unmapped || unmapped->previous || unmapped->next) continue;
    pool.unmapped.erase(unmapped);
    unused_blocks_.push_back(unmapped);
  }
}

}  // namespace fsdp
