#include "trainer/train/random_state.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

using namespace fsdp;

TEST_CASE("a generator that is put back draws the same numbers") {
  at::rand({1234});
  const GeneratorState before = generator_state(at::kCPU);
  const at::Tensor uniform = at::rand({77});
  const at::Tensor normal = at::randn({5});  // keeps half of a pair for the next call
  const GeneratorState between = generator_state(at::kCPU);
  const at::Tensor next = at::randn({5});
  CHECK(before.cpu != between.cpu);
  CHECK_FALSE(before.cuda);

  CHECK(set_generator_state(between, at::kCPU));
  CHECK(at::randn({5}).equal(next));
  CHECK(set_generator_state(before, at::kCPU));
  CHECK(at::rand({77}).equal(uniform));
  CHECK(at::randn({5}).equal(normal));
}

TEST_CASE("what is no generator's state is refused and changes nothing") {
  const GeneratorState before = generator_state(at::kCPU);
  const size_t size = before.cpu.size();
  for (const std::string& text : {std::string(), std::string("00"), before.cpu + "00",
                                  std::string(size, 'x'), std::string(size, 'f')}) {
    CHECK_FALSE(set_generator_state({.cpu = text, .cuda = std::nullopt}, at::kCPU));
    CHECK(generator_state(at::kCPU) == before);
  }
}
