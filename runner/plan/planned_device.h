#pragma once

#include <optional>
#include <string>

#include "contract/plan/run_plan.h"
#include "runner/experiment/experiment.h"
#include "runner/host/host.h"

namespace fsdp {

// What the user names; absent: what is found.
struct PlanTarget {
  std::optional<std::string> gpu;
  std::optional<double> host_memory_gib;  // of each node
};

// What runs are planned for, and its name for people.
struct DeviceForRuns {
  PlannedDevice device;
  PlannedHost host{};
  std::string name;  // "NVIDIA H100 80GB HBM3", "a GPU of 79 GiB (the profile's)", "the CPU"
};

// Returns the device and the node that `spec` is planned for. `host` is this one; nullopt: Slurm
// starts the runs elsewhere. Throws ConfigError if the GPU that `target` names is not known.
//
// A GPU is the one that is named, else this host's, else one with the memory that Slurm, or the
// profile, asks for. A node has the memory that is named, else what the run asks Slurm for. If the
// run would start here, it has this host's, or the limit of this process's cgroup if that is less.
// The ranks of a node share its memory, and on the CPU that is all there is.
DeviceForRuns planned_device(const PlanTarget& target, const Expansion& expansion,
                             const RunSpec& spec, const std::optional<Host>& host);

}  // namespace fsdp
