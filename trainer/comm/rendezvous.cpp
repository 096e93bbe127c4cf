// Finds the store of rank 0. A sign at its port tells ranks of another start to go elsewhere.
#include "trainer/comm/rendezvous.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "trainer/comm/fellow_processes.h"
#include "trainer/comm/same_world.h"
#include "trainer/comm/sign_post.h"

namespace fsdp {
namespace {

using std::chrono::milliseconds;

using StorePointer = c10::intrusive_ptr<c10d::TCPStore>;

c10d::TCPStoreOptions store_options(const WorldEnvironment& world, int port, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.isServer = serves_store(world);
  options.numWorkers = world.world_size;
  options.timeout = timeout;
  options.waitWorkers = false;  // require_same_world() waits and knows the missing ranks
  return options;
}

StorePointer store_at(const WorldEnvironment& world, const c10d::TCPStoreOptions& options) {
  return c10::make_intrusive<c10d::TCPStore>(world.master_address, options);
}

std::vector<int> ports(const WorldEnvironment& world) {
  std::vector<int> all{world.master_port};
  all.insert(all.end(), world.next_ports.begin(), world.next_ports.end());
  return all;
}

// Returns the text that identifies a start, before the port of its store.
std::string sign(const WorldEnvironment& world) {
  return "fsdp-train start " + world.start_name + " meets at port ";
}

// nullopt if nobody listens yet, or if another program or another start's rank 0 listens.
std::optional<int> port_on_sign(const WorldEnvironment& world, int sign_port) {
  const std::string line = read_sign(world.master_address, sign_port);
  const std::string expected = sign(world);
  if (!line.starts_with(expected)) return std::nullopt;
  int port = 0;
  std::from_chars(line.data() + expected.size(), line.data() + line.size(), port);
  return port;
}

int find_sign(const WorldEnvironment& world, milliseconds timeout) {
  constexpr milliseconds kFirstPause = std::chrono::milliseconds(20);
  constexpr milliseconds kLongestPause = std::chrono::seconds(1);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    for (const int sign_port : ports(world)) {
      if (const auto port = port_on_sign(world, sign_port)) return *port;
    }
    if (std::chrono::steady_clock::now() + pause > deadline) {
      throw std::runtime_error("rank 0 of this start listens at none of these ports");
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Store> meet_at_store(const WorldEnvironment& world, at::Device device,
                                              milliseconds timeout) {
  constexpr int kAnyFreePort = 0;
  std::optional<SignPost> sign_post;  // exists until all ranks have come
  StorePointer served;
  if (world.start_name.empty()) {
    served = store_at(world, store_options(world, world.master_port, timeout));
  } else if (world.rank == 0) {
    served = store_at(world, store_options(world, kAnyFreePort, timeout));
    sign_post.emplace(ports(world), sign(world) + std::to_string(served->getPort()));
  } else {
    served = store_at(world, store_options(world, find_sign(world, timeout), timeout));
  }
  c10::intrusive_ptr<c10d::Store> store = std::move(served);
  if (!world.store_prefix.empty()) {
    store = c10::make_intrusive<c10d::PrefixStore>(world.store_prefix, std::move(store));
  }
  register_process(*store, world.rank);
  require_same_world(world, device, *store, timeout);
  return store;
}

bool serves_store(const WorldEnvironment& world) {
  return world.rank == 0 && world.store_prefix.empty();
}

std::string meeting_place(const WorldEnvironment& world) {
  std::string place = world.master_address + ":" + std::to_string(world.master_port);
  for (const int port : world.next_ports) place += " or " + std::to_string(port);
  return place;
}

}  // namespace fsdp
