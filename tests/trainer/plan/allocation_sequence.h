#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <unordered_set>
#include <vector>

#include "tests/fakes/cuda/fake_cuda.h"
#include "trainer/plan/caching_allocator.h"

namespace fsdp::test {

// An allocation. With 0 bytes it frees an earlier allocation.
struct AllocatorCall {
  int64_t id;
  int64_t bytes;
  int stream;
};

// An allocator's figures after a call.
struct AllocatorFigures {
  int64_t allocated = 0, allocated_max = 0, reserved = 0, reserved_max = 0;
  int64_t requested = 0, requested_max = 0, retries = 0;

  bool operator==(const AllocatorFigures&) const = default;
};

// Allocations and frees on three streams, in waves like training steps. Each wave fills memory and
// empties it more or less. Sizes go from bytes to a GiB. Many repeat, and some are at size limits.
inline std::vector<AllocatorCall> allocation_sequence(uint64_t seed, int64_t calls) {
  std::mt19937_64 random(seed);
  const auto below = [&random](size_t end) { return static_cast<int64_t>(random() % end); };
  const auto of_any_size = [&below] {
    const int64_t magnitude = int64_t{1} << below(31);
    return 1 + magnitude / 2 + below(static_cast<size_t>(magnitude));
  };
  constexpr int64_t kMib = int64_t{1} << 20;
  std::vector<int64_t> sizes = {
      1,         512,       513,       kMib - 511, kMib,          kMib + 1,       2 * kMib,
      10 * kMib, 19 * kMib, 20 * kMib, 21 * kMib,  20 * kMib + 1, 10 * kMib - 512};
  for (int i = 0; i < 20; ++i) sizes.push_back(of_any_size());

  std::vector<AllocatorCall> sequence;
  std::vector<int64_t> live;
  int64_t allocations_left = 0, frees_left = 0;
  while (static_cast<int64_t>(sequence.size()) < calls) {
    if (allocations_left == 0 && frees_left == 0) {
      allocations_left = 1 + below(120);
      frees_left = below(live.size() + static_cast<size_t>(allocations_left) + 1);
    }
    const bool mostly_frees = allocations_left == 0 || below(4) == 0;
    if (frees_left > 0 && !live.empty() && mostly_frees) {
      // Frees the newest, the oldest, or any allocation.
      const int64_t choice = below(3);
      const int64_t newest = static_cast<int64_t>(live.size()) - 1;
      const auto at = live.begin() + (choice == 0 ? newest : choice == 1 ? 0 : below(live.size()));
      sequence.push_back({.id = *at, .bytes = 0, .stream = 0});
      live.erase(at);
      --frees_left;
    } else if (allocations_left > 0) {
      const int64_t id = static_cast<int64_t>(sequence.size());
      const int64_t bytes =
          below(3) == 0 ? of_any_size() : sizes[static_cast<size_t>(below(sizes.size()))];
      const int stream = below(4) == 0 ? static_cast<int>(1 + below(2)) : 0;
      sequence.push_back({.id = id, .bytes = bytes, .stream = stream});
      live.push_back(id);
      --allocations_left;
    } else {
      frees_left = 0;
    }
  }
  return sequence;
}

// A sequence, and the figures of libtorch's own allocator. caching_allocator_cuda_test checks them.
struct RecordedAllocations {
  uint64_t seed;
  int64_t calls;
  bool expandable_segments;
  int64_t memory_gib;  // 0: no limit
  int64_t out_of_memory;
  int64_t retries;
  int64_t reserved_max;
  uint64_t digest;  // of the figures after every call

  bool operator==(const RecordedAllocations&) const = default;
};

inline void digest(uint64_t& digest, const AllocatorFigures& figures) {
  for (const int64_t figure :
       {figures.allocated, figures.allocated_max, figures.reserved, figures.reserved_max,
        figures.requested, figures.requested_max, figures.retries}) {
    digest = (digest ^ static_cast<uint64_t>(figure)) * 0x100000001b3;  // as FNV-1a
  }
}

// Gives the sequence to `allocator`, which has allocate(call), free(id) and figures(). allocate()
// returns false if the allocation does not fit. Such an allocation is not freed.
template <class Allocator>
RecordedAllocations record(RecordedAllocations of, Allocator& allocator) {
  of.out_of_memory = 0;
  of.digest = 0;
  std::unordered_set<int64_t> missing;
  AllocatorFigures figures;
  for (const AllocatorCall& call : allocation_sequence(of.seed, of.calls)) {
    if (call.bytes > 0) {
      if (!allocator.allocate(call)) missing.insert(call.id);
    } else if (!missing.contains(call.id)) {
      allocator.free(call.id);
    }
    figures = allocator.figures();
    digest(of.digest, figures);
  }
  of.out_of_memory = static_cast<int64_t>(missing.size());
  of.retries = figures.retries;
  of.reserved_max = figures.reserved_max;
  return of;
}

inline constexpr std::array kRecordedAllocations = {
    RecordedAllocations{101, 1000, false, 0, 0, 0, 28848422912, 0xc392a24cd5587cc3},
    RecordedAllocations{101, 1000, true, 0, 0, 0, 27556577280, 0x6d096414e83326c3},
    RecordedAllocations{102, 1000, false, 3, 32, 38, 3212836864, 0xb002c21d6b3ef46f},
    RecordedAllocations{102, 1000, true, 3, 27, 34, 3221225472, 0x029b949aca030197},
    RecordedAllocations{103, 4000, false, 8, 44, 54, 8581545984, 0xfe07234a8218ff3e},
    RecordedAllocations{103, 4000, true, 8, 51, 66, 8587837440, 0x7e50c46c645de7b4},
};

// Our replay of libtorch's allocator, on a GPU as large as in tests/fakes/cuda/fake_cuda.h.
class ReplayedAllocator {
 public:
  ReplayedAllocator(bool expandable_segments, int64_t memory_gib)
      : allocator_({.expandable_segments = expandable_segments,
                    .memory_bytes = memory_gib << 30,
                    .device_bytes = fake_cuda::kDeviceBytes}) {}

  bool allocate(const AllocatorCall& call) {
    try {
      allocator_.allocate(call.id, call.bytes, call.stream);
      return true;
    } catch (const CachingAllocator::OutOfMemory&) {
      return false;
    }
  }
  void free(int64_t id) { allocator_.free(id); }
  AllocatorFigures figures() const {
    return {.allocated = allocator_.allocated_bytes(),
            .allocated_max = allocator_.allocated_bytes_max(),
            .reserved = allocator_.reserved_bytes(),
            .reserved_max = allocator_.reserved_bytes_max(),
            .requested = allocator_.requested_bytes(),
            .requested_max = allocator_.requested_bytes_max(),
            .retries = allocator_.retries()};
  }

 private:
  CachingAllocator allocator_;
};

}  // namespace fsdp::test
