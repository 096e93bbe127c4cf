#include "trainer/comm/process_group.h"

#include <ATen/ATen.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <future>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/text/config_error.h"
#include "tests/free_port.h"
#include "trainer/comm/membership.h"
#include "trainer/comm/sign_post.h"

namespace fsdp::process_group_test {

using Catch::Matchers::Contains;

constexpr int kNobodyListens = 1;

// Accepts connections and never answers.
struct Listener {
  Listener() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(descriptor, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(descriptor, 1) == 0);
    REQUIRE(getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port = ntohs(address.sin_port);
  }
  ~Listener() { close(descriptor); }
  Listener(const Listener&) = delete;

  int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int port = 0;
};

TEST_CASE("ranks that follow each other tell which of them are on one host") {
  const auto spans_hosts = [](std::vector<int> ranks) {
    Membership membership;
    membership.ranks = std::move(ranks);
    membership.ranks_per_host = 2;
    return membership.spans_hosts();
  };
  CHECK(spans_hosts({0, 1, 2, 3}));
  CHECK(!spans_hosts({0, 1}));
  CHECK(!spans_hosts({2, 3}));
  CHECK(spans_hosts({1, 3}));
  CHECK(!spans_hosts({3}));
}

TEST_CASE("a single rank communicates with nobody") {
  const auto group = make_process_group({}, at::kCPU);
  const at::Tensor input = at::randn({100});
  const at::Tensor shard = at::empty({100});
  const at::Tensor whole = at::empty({100});
  group->clock().start();
  group->reduce_scatter(shard, input).wait();
  group->all_gather(whole, shard).wait();
  group->all_reduce(whole).wait();
  group->barrier();
  CHECK(group->clock().stop().milliseconds() == 0);
  CHECK(whole.equal(input));
  CHECK(group->agree("key", "value") == "value");
  CHECK(group->subgroup("itself", {0})->size() == 1);
}

TEST_CASE("ranks that never come are an error in time") {
  const WorldEnvironment world{0, 2, 0, 2, "127.0.0.1", 0};
  ProcessGroupOptions options;
  options.rendezvous_timeout = std::chrono::milliseconds(200);
  CHECK_THROWS_AS(make_process_group(world, at::kCPU, options), CommunicationError);
  const WorldEnvironment other{1, 2, 1, 2, "127.0.0.1", kNobodyListens};
  CHECK_THROWS_AS(make_process_group(other, at::kCPU, options), CommunicationError);
}

TEST_CASE("ranks that hang while they meet are an error in time") {
  // Rank 0 accepts and never answers. If this process stands still for as long as the timeout,
  // the store gives up before it waits for an answer.
  std::string reason;
  ProcessGroupOptions options;
  options.rendezvous_timeout = std::chrono::milliseconds(200);
  for (; reason.empty(); options.rendezvous_timeout *= 2) {
    const Listener listener;
    const WorldEnvironment at_silent_port{1, 2, 1, 2, "127.0.0.1", listener.port};
    options.on_timeout = [&](const std::string& text) {
      reason = text;
      shutdown(listener.descriptor, SHUT_RDWR);  // so this process need not end
    };
    CHECK_THROWS_AS(make_process_group(at_silent_port, at::kCPU, options), CommunicationError);
  }
  CHECK_THAT(reason, Contains("rendezvous on rank 1 of 2 took longer than "));
  CHECK_THAT(reason, Contains("never came to 127.0.0.1:") && Contains("MASTER_ADDR"));

  // Rank 1 never connects, though rank 0 reaches the store.
  c10d::TCPStoreOptions store_options;
  store_options.port = 0;
  store_options.isServer = true;
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", store_options);
  WorldEnvironment served{0, 2, 0, 2, "127.0.0.1", store->getPort()};
  served.store_prefix = "test";
  options.on_timeout = nullptr;
  CHECK_THROWS_AS(make_process_group(served, at::kCPU, options), CommunicationError);
}

TEST_CASE("a job whose port another program has took the run with it") {
  const Listener silent;
  const int other_port = free_port();
  const SignPost other_start({other_port}, "fsdp-train start alps/6.0 meets at port 1");
  WorldEnvironment world{0, 2, 0, 2, "127.0.0.1", silent.port, "", "alps/7.0", {other_port}};
  ProcessGroupOptions options;
  options.rendezvous_timeout = std::chrono::seconds(2);
  CHECK_THROWS_WITH(make_process_group(world, at::kCPU, options),
                    Contains("or " + std::to_string(other_port)) && Contains("in use"));
  world.rank = world.local_rank = 1;
  CHECK_THROWS_WITH(make_process_group(world, at::kCPU, options),
                    Contains("rank 0 of this start listens at none of these ports"));

  options.rendezvous_timeout = std::chrono::minutes(1);
  world.next_ports.push_back(free_port());
  auto rank_1 = std::async(std::launch::async, [world, options] {
    return make_process_group(world, at::kCPU, options)->agree("key", "of rank 1");
  });
  world.rank = world.local_rank = 0;
  const auto group = make_process_group(world, at::kCPU, options);
  CHECK(group->agree("key", "of rank 0") == "of rank 0");
  CHECK(rank_1.get() == "of rank 0");
}

TEST_CASE("ranks of different worlds are refused on all of them") {
  const auto world = [port = free_port()](int rank, int size) {
    return WorldEnvironment{rank, size, rank, size, "127.0.0.1", port};
  };
  const auto start = [](const WorldEnvironment& of_rank) -> std::string {
    try {
      const auto group = make_process_group(of_rank, at::kCPU);
      group->barrier();
      return "met";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  // Returns the message that all of these ranks give.
  const auto start_all = [&](const std::vector<WorldEnvironment>& ranks) {
    std::vector<std::future<std::string>> starting;
    for (const WorldEnvironment& rank : ranks) {
      starting.push_back(std::async(std::launch::async, start, rank));
    }
    const std::string said = starting[0].get();
    for (size_t rank = 1; rank < ranks.size(); ++rank) CHECK(starting[rank].get() == said);
    return said;
  };
  CHECK(start_all({world(0, 2), world(1, 2)}) == "met");
  CHECK_THAT(start_all({world(0, 2), world(1, 3)}),
             Contains("environment: 'WORLD_SIZE': rank 1 was started as one of 3 ranks, rank 0 as "
                      "one of 2"));
  CHECK_THAT(start_all({world(0, 3), world(1, 2)}),
             Contains("rank 1 was started as one of 2 ranks, rank 0 as one of 3"));
  CHECK_THAT(start_all({world(0, 3), world(1, 3), world(1, 3)}),
             Contains("environment: 'RANK': two processes were started as rank 1 of 3"));
  WorldEnvironment elsewhere = world(1, 2);
  elsewhere.local_rank = 0;
  elsewhere.local_world_size = 1;
  CHECK_THAT(start_all({world(0, 2), elsewhere}),
             Contains("environment: 'LOCAL_WORLD_SIZE': rank 1 was started with ranks on other "
                      "hosts, too, rank 0 with all ranks on its host"));

  auto meeting =
      std::async(std::launch::async, [&] { return make_process_group(world(1, 2), at::kCPU); });
  const auto rank_0 = make_process_group(world(0, 2), at::kCPU);
  const auto rank_1 = meeting.get();
  CHECK_THAT(start(world(1, 2)), Contains("environment: 'RANK': more than 2 processes came"));
}

TEST_CASE("a CUDA group in a CPU build says what to do") {
  CHECK_THROWS_AS(make_process_group({}, at::Device(at::kCUDA, 0)), ConfigError);
}

}  // namespace fsdp::process_group_test
