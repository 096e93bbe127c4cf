#include "trainer/comm/process_group.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "trainer/contract/config_error.h"

using namespace fsdp;

constexpr int kNobodyListens = 1;

TEST_CASE("a single rank communicates with nobody") {
  const auto group = make_process_group({}, at::kCPU);
  const at::Tensor input = at::randn({100});
  const at::Tensor shard = at::empty({100});
  const at::Tensor whole = at::empty({100});
  group->reduce_scatter(shard, input).wait();
  group->all_gather(whole, shard).wait();
  group->all_reduce(whole).wait();
  group->barrier();
  CHECK(whole.equal(input));
  CHECK(group->agree("key", "value") == "value");
}

TEST_CASE("ranks that never come are an error in time") {
  const WorldEnvironment world{0, 2, 0, 2, "127.0.0.1", 0};
  ProcessGroupOptions options;
  options.rendezvous_timeout = std::chrono::milliseconds(200);
  CHECK_THROWS_AS(make_process_group(world, at::kCPU, options), CommunicationError);
  const WorldEnvironment other{1, 2, 1, 2, "127.0.0.1", kNobodyListens};
  CHECK_THROWS_AS(make_process_group(other, at::kCPU, options), CommunicationError);
}

#ifndef FSDP_CUDA
TEST_CASE("a CUDA group in a CPU build says what to do") {
  CHECK_THROWS_AS(make_process_group({}, at::Device(at::kCUDA, 0)), ConfigError);
}
#endif
