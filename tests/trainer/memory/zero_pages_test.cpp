#include "trainer/memory/zero_pages.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "trainer/memory/counting_allocator.h"
#include "trainer/memory/memory_probe.h"

namespace fsdp::zero_pages_test {

TEST_CASE("zeros on demand are zeros, where memory was used before too") {
  const int64_t count = GENERATE(0, 1, 1000, 1 << 18, (1 << 20) + 3, 12'345'679);
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kBFloat16, at::kByte);
  CAPTURE(count, dtype);
  const auto options = at::TensorOptions(dtype);
  at::ones({count}, options);
  const at::Tensor neighbour_before = at::ones({100}, options);
  const at::Tensor zeros = zeros_on_demand({count}, options);
  const at::Tensor neighbour_after = at::ones({100}, options);
  CHECK(zeros.equal(at::zeros({count}, options)));
  CHECK(neighbour_before.equal(neighbour_after));
}

}  // namespace fsdp::zero_pages_test
