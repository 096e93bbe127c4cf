#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/system/program.h"
#include "contract/plan/run_plan.h"
#include "runner/experiment/experiment.h"
#include "runner/host/host.h"

// Asks the trainer what runs need on the devices that they are planned for.
namespace fsdp {

// The devices that the user names. nullopt: those that are found.
struct PlanTarget {
  std::optional<std::string> gpu;
  std::optional<double> host_memory_gib;  // of each node
};

// The device and node that a run is planned for.
struct DeviceForRuns {
  PlannedDevice device;
  PlannedHost host{};
  std::string name;  // "NVIDIA H100 80GB HBM3", "a GPU of 79 GiB (the profile's)", "the CPU"
};

// Returns the device and the node that `spec` is planned for. `host` is this one; nullopt: Slurm
// starts the runs elsewhere. Throws ConfigError if the GPU that `target` names is not known.
//
// A GPU is the one that `target` names, else this host's smallest. Without either, only its memory
// is known, from Slurm's options or the profile. A node has the memory that `target` names, else
// the memory that the run requests from Slurm. If the run would start here, this host's memory
// counts, or this cgroup's limit if that is less. The ranks of a node share its memory. On the CPU
// they have no other memory.
DeviceForRuns planned_device(const PlanTarget& target, const Expansion& expansion,
                             const RunSpec& spec, const std::optional<Host>& host);

// Returns the resources that select a profile. A GPU that `target` names exists in any number.
Resources planned_resources(const PlanTarget& target, const std::optional<Host>& host);

// A trainer process that plans runs and trains none.
class Planner {
 public:
  // `results` is the folder that may have prepared data. `patience` is the time limit of each
  // answer; a model of 100,000 layers takes a minute. Throws std::system_error if the trainer
  // cannot be started. The process ignores SIGPIPE from then on.
  Planner(const std::filesystem::path& trainer, std::filesystem::path results,
          std::chrono::seconds patience = std::chrono::minutes(5));

  // Returns the trainer's plan. Equal requests are asked once, except those with a timeline. Throws
  // ConfigError with the trainer's message if the run cannot be planned. Throws std::runtime_error
  // if the trainer has ended or does not answer in time.
  RunPlan plan(const RunSpec& spec, const DeviceForRuns& device, bool timeline = false);

 private:
  std::string answer_to(const PlanRequest& request);

  std::filesystem::path results_;
  std::chrono::seconds patience_;
  Conversation trainer_;
  std::map<std::string, std::string> answers_;  // by the request
};

// Predictions for runs that are about to start, on the devices that they will use. Failures are
// only logged. After a failure of the trainer itself, the trainer is not asked again.
class RunPredictions {
 public:
  // `expansion` outlives this object. `host` is nullopt if Slurm starts the runs on other hosts.
  // The first predict() starts the trainer.
  RunPredictions(const Expansion& expansion, std::optional<Host> host,
                 std::filesystem::path trainer, std::filesystem::path results);

  std::optional<RunPlan> predict(const RunSpec& spec);

 private:
  const Expansion& expansion_;
  std::optional<Host> host_;
  std::filesystem::path trainer_;
  std::filesystem::path results_;
  std::unique_ptr<Planner> planner_;  // null: not started, or given up
  bool has_given_up_ = false;
};

}  // namespace fsdp
