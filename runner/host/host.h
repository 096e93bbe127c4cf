#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/experiment/experiment.h"
#include "runner/host/gpus.h"

namespace fsdp {

std::string host_name();

// The resources of this host that runs may use.
struct Host {
  std::string name;
  std::vector<Gpu> gpus;  // from --gpus, else CUDA_VISIBLE_DEVICES, else all
  Resources resources;
};

// Returns the kinds of the GPUs and their memory: "NVIDIA A100-SXM4-80GB 81920 MiB"; empty: no GPU.
std::string device_kinds(std::span<const Gpu> gpus);

// Throws ConfigError if `gpus_option` names a GPU that is not here. On a host with GPUs,
// CUDA_VISIBLE_DEVICES is checked in the same way.
Host find_host(const std::optional<std::string>& gpus_option);

}  // namespace fsdp
