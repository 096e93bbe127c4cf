#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "contract/spec/slurm_spec.h"
#include "runner/launch/launcher.h"
#include "runner/launch/supervised_launches.h"
#include "runner/slurm/request.h"

namespace fsdp {

// The job that this process runs in.
struct Allocation {
  std::string job;      // SLURM_JOB_ID
  SlurmSpec slurm{};    // what it was asked for with
  SlurmRequest size{};  // what it has
  std::filesystem::path working_directory{};
  std::vector<std::filesystem::path> folders{};  // that a container sees
};

// Starts a run's ranks as a step of the job that this process runs in, by one srun, which is all
// that its supervisor looks after. Slurm places the step on nodes; side by side are at most
// slurm.max_parallel (0: one) where there is room. Ranks are asked to stop by SIGUSR1, which srun
// forwards, whereas SIGTERM makes it kill them. Not for programs with several threads: it forks.
class StepLauncher : public Launcher {
 public:
  explicit StepLauncher(Allocation allocation, Patience patience = {});

  bool has_room(size_t ranks, bool uses_gpus) const override;
  void start(const LaunchRequest& request) override;
  std::vector<LaunchResult> wait(std::chrono::milliseconds timeout) override;
  void stop_all() override;

 private:
  struct Step {
    int64_t id = 0;  // of its request
    std::string name;
    SlurmRequest size;
  };

  SupervisorPlan plan(const LaunchRequest& request, const Step& step) const;
  LaunchResult result(const EndedLaunch& ended, const Step& step) const;

  Allocation allocation_;
  Patience patience_;
  SupervisedLaunches launches_;
  std::vector<Step> running_;
};

}  // namespace fsdp
