#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <vector>

namespace fsdp {

// Replays libtorch's allocator of GPU memory without a GPU. It models
// c10::cuda::CUDACachingAllocator of PyTorch 2.11 (DeviceCachingAllocator; sizes are from
// c10/core/AllocatorConfig.h). For a sequence of allocations and frees it computes, to the byte,
// how much memory the allocator takes from the device. All settings other than Options are the
// defaults. CUDA graphs and tensors that other streams use after they are freed (recordStream) are
// not modelled. The driver's addresses are unknown and assumed to rise, which matters only for the
// choice between cached blocks of equal size.
class CachingAllocator {
 public:
  struct Options {
    bool expandable_segments = true;
    // The memory that the allocator can take from the device; 0: no limit.
    int64_t memory_bytes = 0;
    // All memory of the device, as the driver reports it. It bounds the addresses that one segment
    // can expand to; 0: no limit.
    int64_t device_bytes = 0;
  };

  // Thrown if an allocation does not fit, even after all cached memory was given back.
  struct OutOfMemory : std::runtime_error {
    using std::runtime_error::runtime_error;
  };

  // Returns the size of the block for a tensor of `bytes`.
  static int64_t rounded(int64_t bytes);

  explicit CachingAllocator(Options options) : options_(options) {}
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // `id` is the caller's name for the allocation and must not be in use. Streams are 0, 1, ...;
  // each has its own memory. Throws OutOfMemory; the allocator remains usable.
  void allocate(int64_t id, int64_t bytes, int stream);
  // Throws std::out_of_range for an `id` that is not allocated.
  void free(int64_t id);

  // Equal torch.cuda.memory_allocated(), memory_reserved() and their "max_" forms: the tensors'
  // blocks after rounding, and all memory taken from the device.
  int64_t allocated_bytes() const { return allocated_.now; }
  int64_t allocated_bytes_max() const { return allocated_.max; }
  int64_t reserved_bytes() const { return reserved_.now; }
  int64_t reserved_bytes_max() const { return reserved_.max; }
  // The bytes that were requested, before rounding.
  int64_t requested_bytes() const { return requested_.now; }
  int64_t requested_bytes_max() const { return requested_.max; }
  // The number of times that cached memory was given back because an allocation did not fit.
  int64_t retries() const { return retries_; }

 private:
  struct Bytes {
    int64_t now = 0;
    int64_t max = 0;

    void add(int64_t bytes);
  };
  struct Pool;
  // A range of addresses. `previous` and `next` are its neighbours in the same segment.
  struct Block {
    int64_t address = 0;
    int64_t bytes = 0;
    int64_t requested_bytes = 0;
    Pool* pool = nullptr;
    Block* previous = nullptr;
    Block* next = nullptr;
    bool allocated = false;
    bool mapped = true;  // has memory; always true if segments do not expand
  };
  struct SmallestFirst {
    using is_transparent = void;
    bool operator()(const Block* a, const Block* b) const;
    bool operator()(const Block* a, int64_t bytes) const { return a->bytes < bytes; }
  };
  struct LowestFirst {
    bool operator()(const Block* a, const Block* b) const { return a->address < b->address; }
  };
  // The blocks of one stream, for small or for large allocations.
  struct Pool {
    explicit Pool(bool small) : is_small(small) {}

    const bool is_small;
    std::set<Block*, SmallestFirst> cached;
    std::set<Block*, LowestFirst> unmapped;

    int64_t page_bytes() const;
  };

  Pool& pool_of(int64_t bytes, int stream);
  Block* make_block(const Block& block);
  bool is_splittable(const Block& block, int64_t bytes) const;
  Block* split(Block* block, int64_t bytes);
  int64_t take_addresses(int64_t bytes);
  bool take_memory(int64_t bytes);

  Block* find_cached(Pool& pool, int64_t bytes);
  Block* take_new(Pool& pool, int64_t bytes);
  Block* take_segment(Pool& pool, int64_t bytes);
  void merge(Block* block, Block* neighbour);
  void give_back_cached();
  void give_back_segments(Pool& pool);

  Block* find_expandable(Pool& pool, int64_t bytes);
  Block* expand(Pool& pool, int64_t bytes);
  bool map(Block* block, int64_t bytes);
  Block* unmap(Block* block);
  void give_back_pages(Pool& pool);

  const Options options_;
  Bytes allocated_, reserved_, requested_;
  int64_t retries_ = 0;
  int64_t next_address_ = 0;
  std::deque<Pool> pools_;  // the small and the large pool of stream 0, then of stream 1, ...
  std::deque<Block> blocks_;
  std::vector<Block*> unused_blocks_;
  std::unordered_map<int64_t, Block*> allocations_;
};

}  // namespace fsdp
