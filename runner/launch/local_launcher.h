#pragma once

#include <vector>

#include "runner/launch/gpus.h"
#include "runner/launch/launcher.h"
#include "runner/launch/supervised_launches.h"

namespace fsdp {

// The resources that launches on this host share.
struct LocalSlots {
  std::vector<Gpu> gpus{};  // one slot each
  int cpu_ranks = 1;        // ranks side by side; a wider launch still runs, alone
  int max_parallel = 1;     // launches at the same time
  bool share = false;       // use GPUs together with processes of others
};

// Runs every rank as a process of this host, with the environment that torchrun would give it. All
// ranks of a launch see its GPUs in order, so LOCAL_RANK indexes them. Launches die with the
// process that made the launcher. Forks, so the process must have only one thread.
class LocalLauncher : public Launcher {
 public:
  explicit LocalLauncher(LocalSlots slots, Patience patience = {});

  bool has_room(size_t ranks, bool uses_gpus) const override;
  // Also throws ConfigError if other processes hold too many GPUs.
  void start(const LaunchRequest& request) override;
  std::vector<AttemptEnd> wait(std::chrono::milliseconds timeout) override;
  void stop_all() override;

 private:
  struct Running {
    LaunchRequest request;
    std::vector<Gpu> gpus;
  };

  std::vector<Gpu> free_gpus() const;
  SupervisorPlan plan(const LaunchRequest& request, const std::vector<Gpu>& gpus) const;

  LocalSlots slots_;
  Patience patience_;
  SupervisedLaunches launches_;
  std::vector<Running> running_;
};

}  // namespace fsdp
