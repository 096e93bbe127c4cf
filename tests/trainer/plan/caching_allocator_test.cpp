#include "trainer/plan/caching_allocator.h"

#include <catch2/catch.hpp>

#include "tests/trainer/plan/allocation_sequence.h"

namespace fsdp::test::caching_allocator_test {

constexpr int64_t kMib = int64_t{1} << 20;

TEST_CASE("the replay does what libtorch's allocator was recorded to do") {
  for (const RecordedAllocations& recorded : kRecordedAllocations) {
    CAPTURE(recorded.seed, recorded.expandable_segments, recorded.memory_gib);
    ReplayedAllocator allocator(recorded.expandable_segments, recorded.memory_gib);
    const RecordedAllocations done = record(recorded, allocator);
    CHECK(done.out_of_memory == recorded.out_of_memory);
    CHECK(done.retries == recorded.retries);
    CHECK(done.reserved_max == recorded.reserved_max);
    CHECK(done.digest == recorded.digest);
  }
}

TEST_CASE(
    "cached memory is given back when the device is full, and only then is it out of memory") {
  const bool expandable_segments = GENERATE(false, true);
  CachingAllocator allocator(
      {.expandable_segments = expandable_segments, .memory_bytes = 100 * kMib});
  allocator.allocate(1, 40 * kMib, 0);
  allocator.allocate(2, 40 * kMib, 1);
  allocator.free(1);
  CHECK(allocator.retries() == 0);
  allocator.allocate(3, 60 * kMib, 1);
  CHECK(allocator.retries() == 1);
  CHECK(allocator.reserved_bytes() == 100 * kMib);
  CHECK_THROWS_WITH(
      allocator.allocate(4, 1, 0),
      "An allocation of 1 bytes does not fit: the allocator can take 104857600 bytes, "
      "has taken 104857600 and has given 104857600 of them to tensors.");
  allocator.free(3);
  allocator.allocate(4, 1, 0);
  CHECK(allocator.retries() == 3);
  CHECK(allocator.reserved_bytes() == 42 * kMib);
}

TEST_CASE(
    "a tensor that is larger than the device takes what it asks for where nothing limits it") {
  CachingAllocator allocator({.device_bytes = 100 * kMib});
  allocator.allocate(1, 300 * kMib, 0);
  CHECK(allocator.reserved_bytes() == 300 * kMib);

  CachingAllocator limited({.memory_bytes = 90 * kMib, .device_bytes = 100 * kMib});
  CHECK_THROWS_AS(limited.allocate(1, 300 * kMib, 0), CachingAllocator::OutOfMemory);
  limited.allocate(2, 80 * kMib, 0);
  CHECK(limited.reserved_bytes() == 80 * kMib);
}

TEST_CASE("nothing takes nothing, and only what is allocated can be freed") {
  CachingAllocator allocator({});
  allocator.allocate(1, 0, 0);
  CHECK(allocator.reserved_bytes() == 0);
  allocator.free(1);
  CHECK_THROWS_AS(allocator.free(1), std::out_of_range);
}

}  // namespace fsdp::test::caching_allocator_test
