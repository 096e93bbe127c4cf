#include "trainer/step/gradient_scaler.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <thread>

using namespace fsdp;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

int free_port() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  close(listener);
  return ntohs(address.sin_port);
}

}  // namespace

TEST_CASE("unscaling divides by the scale and finds what is not finite") {
  const auto group = make_process_group({}, at::kCPU);
  GradientScaler scaler;
  scaler.set_state({.scale = 1024});
  const at::Tensor first = at::arange(1001, at::kFloat);
  const at::Tensor second = at::full({3}, 512.f);
  CHECK(scaler.unscale({first, second}, *group, at::kCPU).item<float>() == 0);
  CHECK(first.equal(at::arange(1001, at::kFloat) / 1024));
  CHECK(second.equal(at::full({3}, 0.5f)));
  const float bad = GENERATE(as<float>(), kInfinity, -kInfinity, std::nanf(""));
  CAPTURE(bad);
  second[2] = bad;
  const at::Tensor found = scaler.unscale({first, second}, *group, at::kCPU);
  CHECK(found.dim() == 0);
  CHECK(found.scalar_type() == at::kFloat);
  CHECK(found.item<float>() == 1);
}

TEST_CASE("every rank learns of a gradient that is not finite on any") {
  const int ranks_that_find = GENERATE(0, 1, 2);
  const int port = free_port();
  std::array<float, 2> found{};
  std::array<std::thread, 2> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank] = std::thread([&found, rank, port, ranks_that_find] {
      const auto group = make_process_group({rank, 2, rank, 2, "127.0.0.1", port}, at::kCPU);
      const at::Tensor gradient = at::full({5}, rank < ranks_that_find ? kInfinity : 1.f);
      found[rank] = GradientScaler().unscale({gradient}, *group, at::kCPU).item<float>();
      group->barrier();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  const float expected = ranks_that_find > 0 ? 1 : 0;
  CHECK(found == std::array{expected, expected});
}

TEST_CASE("the scale doubles after 2,000 steps without an overflow and halves at one") {
  GradientScaler scaler;
  CHECK(scaler.scale() == 65536);
  const auto good_steps = [&](int count) {
    for (int i = 0; i < count; ++i) scaler.update(false);
  };
  good_steps(1999);
  CHECK(scaler.scale() == 65536);
  good_steps(1);
  CHECK(scaler.scale() == 131072);
  good_steps(1999);
  scaler.update(true);
  scaler.update(true);
  CHECK(scaler.scale() == 32768);
  good_steps(1999);
  CHECK(scaler.scale() == 32768);
  CHECK(scaler.state().steps_since_growth == 1999);

  GradientScaler resumed;
  resumed.set_state(scaler.state());
  resumed.update(false);
  CHECK(resumed.scale() == 65536);
  CHECK(resumed.state().steps_since_growth == 0);
}

TEST_CASE("the scale stays a finite float") {
  GradientScaler scaler;
  const double largest = std::ldexp(1.0, 127);
  scaler.set_state({.scale = largest, .steps_since_growth = 1999});
  scaler.update(false);
  CHECK(scaler.scale() == largest);
  CHECK(scaler.state().steps_since_growth == 0);
}
