#pragma once

#include <optional>
#include <string>

#include "contract/plan/run_plan.h"
#include "runner/experiment/experiment.h"
#include "runner/host/host.h"

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

}  // namespace fsdp
