#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/experiment/experiment.h"
#include "runner/launch/gpus.h"

namespace fsdp {

std::string host_name();

// What runs may use on this host.
struct Host {
  std::string name;
  std::vector<Gpu> gpus;  // those of --gpus, else of CUDA_VISIBLE_DEVICES, else all
  Resources resources;
};

// The kinds of the GPUs and their memory: "NVIDIA A100-SXM4-80GB 81920 MiB"; empty: none.
std::string device_kinds(std::span<const Gpu> gpus);

// Throws ConfigError when `gpus_option` (or CUDA_VISIBLE_DEVICES on a host with GPUs) names a GPU
// that is not here.
Host find_host(const std::optional<std::string>& gpus_option);

}  // namespace fsdp
