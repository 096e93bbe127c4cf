#pragma once

#include <optional>
#include <string>

#include "contract/plan/run_plan.h"
#include "runner/experiment/experiment.h"
#include "runner/host/host.h"

namespace fsdp {

// What runs are planned for, and its name for people.
struct DeviceForRuns {
  PlannedDevice device;
  std::string name;  // "NVIDIA H100 80GB HBM3", "a GPU of 79 GiB (the profile's)", "the CPU"
};

// Of a run on a GPU: the one of `name`, else the host's, else one with the memory that Slurm, or
// the profile, asks for. Where Slurm starts the runs, `host` is one without GPUs. Throws
// ConfigError when the name is not known.
DeviceForRuns planned_gpu(const std::optional<std::string>& name, const Expansion& expansion,
                          const RunSpec& spec, const Host& host);

// Of one that computes on the CPU: the memory of this host or, if it is less, of this process's
// cgroup; on a cluster the memory that the run asks for of each node, if it does. Ranks share it.
DeviceForRuns planned_cpu(const RunSpec& spec, bool on_cluster);

}  // namespace fsdp
