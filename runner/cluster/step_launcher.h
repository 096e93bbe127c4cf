#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "contract/spec/slurm_spec.h"
#include "runner/cluster/request.h"
#include "runner/run/launcher.h"
#include "runner/run/supervised_launches.h"

namespace fsdp {

// The job that this process runs in.
struct Allocation {
  std::string job;      // SLURM_JOB_ID
  SlurmSpec slurm{};    // the settings that it was requested with
  SlurmRequest size{};  // its actual size
  std::filesystem::path working_directory{};
  std::vector<std::filesystem::path> folders{};  // visible in a container
};

// Starts a run's ranks as one step of this process's job. The supervisor looks after one srun.
// Slurm places the step on nodes. Up to slurm.max_parallel steps (0: one) run side by side if they
// have room. SIGUSR1 asks ranks to stop: srun forwards it, but kills ranks on SIGTERM. Forks, so it
// must not be used in a process with several threads.
class StepLauncher : public Launcher {
 public:
  explicit StepLauncher(Allocation allocation, Patience patience = {});

  bool has_room(size_t ranks, bool uses_gpus) const override;
  void start(const LaunchRequest& request) override;
  std::vector<AttemptEnd> wait(std::chrono::milliseconds timeout) override;
  void stop_all() override;

 private:
  struct Step {
    int64_t id = 0;  // the request's id
    std::string name;
    SlurmRequest size;
    uintmax_t job_output_begin = 0;  // of what the job's output gets during the step
  };

  SupervisorPlan plan(const LaunchRequest& request, const Step& step) const;
  bool says_limit_reached(const Step& step, const LaunchRequest& request,
                          const ProcessEnd& srun) const;
  AttemptEnd end_of(const Step& step, const LaunchRequest& request, const ProcessEnd& srun) const;

  Allocation allocation_;
  Patience patience_;
  SupervisedLaunches launches_;
  std::vector<Step> running_;
};

// The words of the command that starts a run's ranks inside a job.
struct StepCommand {
  std::vector<std::string> srun;     // "srun" and its options
  std::vector<std::string> trainer;  // the program, in its container if any
};

// A container sees `folders` at the same paths. Throws ConfigError if srun or the engine would
// misread an option or a path.
StepCommand step_command(const SlurmSpec& slurm, const SlurmRequest& request,
                         const std::filesystem::path& trainer,
                         const std::filesystem::path& working_directory,
                         const std::vector<std::filesystem::path>& folders);

}  // namespace fsdp
