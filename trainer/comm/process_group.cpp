// Connects the ranks of a run. A single rank needs no store and no transport, except for NCCL.
#include "trainer/comm/process_group.h"

#include <csignal>
#include <map>
#include <numeric>

#include "base/text/config_error.h"
#include "trainer/comm/backends.h"
#include "trainer/comm/exchange_group.h"
#include "trainer/comm/rendezvous.h"

namespace fsdp {
namespace {

// The group of a single rank, which does not communicate.
class SingleRankGroup : public ProcessGroup {
 public:
  SingleRankGroup() : ProcessGroup(0, 1) {}

  Pending all_gather(at::Tensor output, at::Tensor shard, int) override {
    return copy(output, shard);
  }
  Pending reduce_scatter(at::Tensor shard, at::Tensor input, int) override {
    return copy(shard, input);
  }
  Pending all_reduce(at::Tensor, int) override { return {}; }
  void barrier() override {}
  std::string agree(const std::string&, const std::string& value) override { return value; }
  void leave(const std::string& key, const std::string& value) override { left_[key] = value; }
  bool is_left(const std::string& key) override { return left_.contains(key); }
  std::string take(const std::string& key) override { return left_.extract(key).mapped(); }
  std::unique_ptr<ProcessGroup> subgroup(const std::string&, const std::vector<int>&) override {
    return make_single_rank_group();
  }

 private:
  static Pending copy(at::Tensor& to, const at::Tensor& from) {
    TORCH_CHECK(to.numel() == from.numel(), "a copy of ", from.numel(), " elements into ",
                to.numel());
    if (to.data_ptr() != from.data_ptr()) to.detach().copy_(from.detach(), /*non_blocking=*/true);
    return {};
  }

  std::map<std::string, std::string> left_;
};

// Exceeds the watchdog's time. The watchdog leaves out the time before an operation on a device
// starts, and the time in which the job was suspended. Transports count both.
std::chrono::milliseconds transport_timeout(const ProcessGroupOptions& options) {
  if (!options.on_timeout) return options.operation_timeout;
  constexpr std::chrono::hours kLongestSuspension{7 * 24};
  return 2 * options.operation_timeout + kLongestSuspension;
}

// Returns the membership of all ranks, without a store.
Membership all_ranks(const WorldEnvironment& world, const ProcessGroupOptions& options) {
  Membership membership;
  membership.rank = world.rank;
  membership.ranks.resize(world.world_size);
  std::iota(membership.ranks.begin(), membership.ranks.end(), 0);
  membership.world_size = world.world_size;
  membership.single_host = world.single_host();
  membership.ranks_per_host = world.local_world_size;
  membership.master_address = world.master_address;
  membership.transport_timeout = transport_timeout(options);
  membership.watchdog =
      std::make_shared<Watchdog>(options.operation_timeout, options.on_timeout,
                                 ", or raise communication.timeout_s if they are only slow");
  return membership;
}

}  // namespace

std::unique_ptr<ProcessGroup> make_single_rank_group() {
  return std::make_unique<SingleRankGroup>();
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
    return make_single_rank_group();
  }
  // A write to a peer that is gone should fail and not end this process.
  std::signal(SIGPIPE, SIG_IGN);
  const std::string place = meeting_place(world);
  const std::string remedy =
      "; check that every rank was started within communication.rendezvous_timeout_s of the "
      "others, and that this host reaches that address; else set MASTER_ADDR and MASTER_PORT to "
      "a free port of rank 0's host";
  try {
    Membership membership = all_ranks(world, options);
    // The store and the connections have timeouts of their own. But if rank 0 hangs, the wait for
    // its answer has no limit. c10d may also begin a last try late.
    Watchdog watchdog(2 * options.rendezvous_timeout, options.on_timeout,
                      ", or never came to " + place + remedy);
    const auto watched = watchdog.watch(membership.describe("rendezvous", kNoUnit));
    membership.store = meet_at_store(world, device, options.rendezvous_timeout);
    if (options.failure_notice != nullptr && world.world_size > 1) {
      options.failure_notice->open(membership.store->clone(), world.rank, world.world_size,
                                   serves_store(world));
    }
    membership.store->setTimeout(membership.transport_timeout);
#ifdef FSDP_CUDA
    if (cuda) return make_nccl_group(std::move(membership), device);
#endif
    auto backend = make_gloo_backend(membership, options.rendezvous_timeout);
    return std::make_unique<ExchangeGroup>(std::move(membership), std::move(backend));
  } catch (const ConfigError&) {
    throw;
  } catch (const std::exception& error) {
    throw CommunicationError("rank " + std::to_string(world.rank) + " of " +
                             std::to_string(world.world_size) + " did not meet the others at " +
                             place + ": " + cause_text(error) + remedy);
  }
}

}  // namespace fsdp
