#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runner/host/host.h"
#include "runner/run/launcher.h"
#include "runner/run/supervised_launches.h"

namespace fsdp {

// The ranks of one launch on one host.
struct RankPlace {
  size_t ranks = 1;
  int port = 0;              // where the ranks meet
  std::string visible_gpus;  // indices, separated by commas; rank r uses the r-th
};

// True if a launcher (torchrun, mpirun, mpiexec) uses the variable to tell a process its rank and
// where ranks meet. Ranks must not inherit such a variable from this process.
bool is_of_a_launcher(std::string_view name);

// Returns the variables that a rank gets beside the user's own: torchrun's, and the GPUs.
std::map<std::string, std::string> rank_variables(const RankPlace& place, size_t rank);

// The resources that launches on this host share.
struct LocalSlots {
  std::vector<Gpu> gpus{};  // one slot each
  int cpu_ranks = 1;        // at the same time; a launch with more ranks runs alone
  int max_parallel = 1;     // launches at the same time
  bool share = false;       // also use GPUs on which other processes compute
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
