#include "trainer/comm/process_group.h"

#include <csignal>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "trainer/comm/backends.h"
#include "trainer/comm/exchange_group.h"
#include "trainer/contract/config_error.h"

namespace fsdp {
namespace {

// A single rank: nothing leaves the process.
class SingleRankGroup : public ProcessGroup {
 public:
  SingleRankGroup() : ProcessGroup(0, 1) {}

  Pending all_gather(at::Tensor output, at::Tensor shard) override { return copy(output, shard); }
  Pending reduce_scatter(at::Tensor shard, at::Tensor input) override { return copy(shard, input); }
  Pending all_reduce(at::Tensor) override { return {}; }
  void barrier() override {}
  std::string agree(const std::string&, const std::string& value) override { return value; }

 private:
  static Pending copy(at::Tensor& to, const at::Tensor& from) {
    TORCH_CHECK(to.numel() == from.numel(), "a copy of ", from.numel(), " elements into ",
                to.numel());
    if (to.data_ptr() != from.data_ptr()) to.detach().copy_(from.detach(), /*non_blocking=*/true);
    return {};
  }
};

c10::intrusive_ptr<c10d::Store> rendezvous(const WorldEnvironment& world,
                                           std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(world.master_port);
  options.isServer = world.rank == 0 && world.store_prefix.empty();
  options.numWorkers = world.world_size;
  options.timeout = timeout;
  auto store = c10::make_intrusive<c10d::TCPStore>(world.master_address, options);
  if (world.store_prefix.empty()) return store;
  return c10::make_intrusive<c10d::PrefixStore>(world.store_prefix, std::move(store));
}

std::string what_of(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::string agree_through(c10d::Store& store, int rank, const std::string& key,
                          const std::string& value) {
  if (rank == 0) {
    store.set(key, std::vector<uint8_t>(value.begin(), value.end()));
    return value;
  }
  const std::vector<uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

std::string describe_failure(const std::string& operation, const ProcessGroup& group,
                             const std::exception& cause) {
  return operation + " failed on rank " + std::to_string(group.rank()) + " of " +
         std::to_string(group.size()) + ": " + what_of(cause) +
         "; another rank has probably stopped first: see its log";
}

std::unique_ptr<ProcessGroup> make_process_group(const WorldEnvironment& world, at::Device device,
                                                 const ProcessGroupOptions& options) {
  const bool cuda = device.is_cuda();
#ifndef FSDP_CUDA
  if (cuda) {
    throw ConfigError("", "device", "cuda needs a build with FSDP_CUDA=ON; this one is CPU only");
  }
#endif
  if (world.world_size == 1 && !(cuda && options.nccl_for_single_rank)) {
    return std::make_unique<SingleRankGroup>();
  }
  // A write to a peer that is gone should fail, not end this process.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const auto store = rendezvous(world, options.rendezvous_timeout);
#ifdef FSDP_CUDA
    if (cuda) return make_nccl_group(store, world, device, options.operation_timeout);
#endif
    auto backend = make_gloo_backend(store, world, options.operation_timeout);
    return std::make_unique<ExchangeGroup>(store, std::move(backend));
  } catch (const std::exception& error) {
    throw CommunicationError(
        "rank " + std::to_string(world.rank) + " of " + std::to_string(world.world_size) +
        " did not meet the others at " + world.master_address + ":" +
        std::to_string(world.master_port) + ": " + what_of(error) +
        "; check that every rank was started, and that MASTER_ADDR and MASTER_PORT name a free "
        "port on the host of rank 0");
  }
}

}  // namespace fsdp
