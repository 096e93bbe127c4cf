#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <unordered_map>

#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/trainer/plan/allocation_sequence.h"

namespace fsdp::test::caching_allocator_cuda_test {

namespace libtorch = c10::cuda::CUDACachingAllocator;

// libtorch's own allocator, over fake GPUs. Only one may exist at a time.
class RealAllocator {
 public:
  RealAllocator(bool expandable_segments, int64_t memory_gib) {
    if (!libtorch::get()->initialized()) libtorch::init(fake_cuda::gpu_count());
    fake_cuda::set_memory_bytes(memory_gib == 0 ? int64_t{1} << 50 : memory_gib << 30);
    c10::CachingAllocator::setAllocatorSettings(expandable_segments ? "expandable_segments:True"
                                                                    : "expandable_segments:False");
    libtorch::resetPeakStats(0);
    libtorch::resetAccumulatedStats(0);
  }
  RealAllocator(const RealAllocator&) = delete;
  RealAllocator& operator=(const RealAllocator&) = delete;
  ~RealAllocator() {
    for (const auto& [id, memory] : live_) libtorch::raw_delete(memory);
    libtorch::emptyCache();
  }

  bool allocate(const AllocatorCall& call) {
    try {
      live_[call.id] = libtorch::raw_alloc_with_stream(static_cast<size_t>(call.bytes),
                                                       reinterpret_cast<cudaStream_t>(call.stream));
      return true;
    } catch (const c10::OutOfMemoryError&) {
      live_.erase(call.id);
      return false;
    }
  }
  void free(int64_t id) {
    libtorch::raw_delete(live_.at(id));
    live_.erase(id);
  }
  AllocatorFigures figures() const {
    const auto figures = libtorch::getDeviceStats(0);
    return {.allocated = figures.allocated_bytes[0].current,
            .allocated_max = figures.allocated_bytes[0].peak,
            .reserved = figures.reserved_bytes[0].current,
            .reserved_max = figures.reserved_bytes[0].peak,
            .requested = figures.requested_bytes[0].current,
            .requested_max = figures.requested_bytes[0].peak,
            .retries = figures.num_alloc_retries};
  }

 private:
  std::unordered_map<int64_t, void*> live_;
};

// Gives every call to both allocators.
class BothAllocators {
 public:
  BothAllocators(bool expandable_segments, int64_t memory_gib)
      : real_(expandable_segments, memory_gib), replay_(expandable_segments, memory_gib) {}

  bool allocate(const AllocatorCall& call) {
    ++calls_;
    last_bytes_ = call.bytes;
    const bool fits = real_.allocate(call);
    if (replay_.allocate(call) != fits) differ("whether it fits");
    return fits;
  }
  void free(int64_t id) {
    ++calls_;
    last_bytes_ = 0;
    real_.free(id);
    replay_.free(id);
  }
  AllocatorFigures figures() {
    const AllocatorFigures real = real_.figures(), replay = replay_.figures();
    if (real.reserved != fake_cuda::used_bytes()) differ("reserved, and used of the fake GPU");
    if (real.allocated != replay.allocated) differ("allocated");
    if (real.reserved != replay.reserved) differ("reserved");
    if (real != replay) differ("a largest figure, what was asked for, or retries");
    return real;
  }

 private:
  void differ(const char* what) const {
    FAIL("libtorch and the replay differ after call " << calls_ << ", of " << last_bytes_
                                                      << " bytes: " << what);
  }

  RealAllocator real_;
  ReplayedAllocator replay_;
  int64_t calls_ = 0, last_bytes_ = 0;
};

// Returns the number of seeds. FSDP_ALLOCATOR_SEEDS makes the test longer.
uint64_t seeds() {
  const char* text = std::getenv("FSDP_ALLOCATOR_SEEDS");
  return text ? std::stoull(text) : 5;
}

TEST_CASE("replayed allocations take what libtorch's allocator takes, after every call") {
  int64_t retries = 0, out_of_memory = 0;
  for (uint64_t seed = 1; seed <= seeds(); ++seed) {
    for (const bool expandable_segments : {false, true}) {
      for (const int64_t memory_gib : {0, 2, 3, 5, 8, 12, 24}) {
        CAPTURE(seed, expandable_segments, memory_gib);
        BothAllocators allocators(expandable_segments, memory_gib);
        const auto done = record({.seed = seed,
                                  .calls = 2'000,
                                  .expandable_segments = expandable_segments,
                                  .memory_gib = memory_gib,
                                  .out_of_memory = 0,
                                  .retries = 0,
                                  .reserved_max = 0,
                                  .digest = 0},
                                 allocators);
        retries += done.retries;
        out_of_memory += done.out_of_memory;
      }
    }
  }
  CHECK(out_of_memory > 100);
  CHECK(retries > out_of_memory + 100);  // over 100 retries succeeded
}

TEST_CASE("libtorch's allocator does what was recorded of it") {
  for (const RecordedAllocations& recorded : kRecordedAllocations) {
    CAPTURE(recorded.seed, recorded.expandable_segments, recorded.memory_gib);
    RealAllocator allocator(recorded.expandable_segments, recorded.memory_gib);
    const RecordedAllocations done = record(recorded, allocator);
    CAPTURE(done.out_of_memory, done.retries, done.reserved_max, done.digest);
    CHECK(done == recorded);
  }
}

}  // namespace fsdp::test::caching_allocator_cuda_test
