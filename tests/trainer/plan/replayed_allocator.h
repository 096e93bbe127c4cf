#pragma once

#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/trainer/plan/allocation_sequence.h"
#include "trainer/plan/caching_allocator.h"

namespace fsdp::test {

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
