// A step on meta tensors computes nothing. It must allocate the same as on a device, in the same
// order.
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>

#include "tests/trainer/step/step_allocations.h"

namespace fsdp::step_without_device_test {

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

}  // namespace fsdp::step_without_device_test
