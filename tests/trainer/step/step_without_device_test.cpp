// A step on meta tensors does what it does on a device, but compute: it allocates the same, in the
// same order.
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>

#include "tests/trainer/step/step_allocations.h"
#include "trainer/memory/counting_allocator.h"

namespace fsdp {
namespace {

ObserveAllocations observe(AllocationCounter& counter) {
  return [&counter](Allocated allocated) {
    if (!allocated) return counter.set_observer({});
    counter.set_observer([allocated](uintptr_t id, const CountedAllocation& made, bool is_release) {
      if (made.is_of_device) allocated(id, made.bytes, is_release);
    });
  };
}

TEST_CASE("on meta every kind of step allocates what it does on the CPU") {
  at::set_num_threads(1);
  const auto cpu = make_backend(at::kCPU);
  const auto meta = make_meta_backend(at::kCPU);
  for (const StepCase& step_case : step_cases()) {
    check_same_allocations(step_case,
                           allocations(step_case, *cpu, observe(CountingAllocator::instance())),
                           allocations(step_case, *meta, observe(MetaAllocator::instance())));
  }
}

}  // namespace
}  // namespace fsdp
