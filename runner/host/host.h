#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/devices/nvml.h"
#include "runner/experiment/experiment.h"

// This host, and the GPUs that runs may use.
namespace fsdp {

std::string host_name();

// Returns the GPUs in `list`, in its order. The list holds indices or UUID prefixes, separated by
// commas, as in --gpus and CUDA_VISIBLE_DEVICES. `place` names the list's source. Throws
// ConfigError if a GPU is not found or named twice.
std::vector<Gpu> choose_gpus(const std::vector<Gpu>& found, std::string_view list,
                             const std::string& place);

// Returns the GPUs on which no process computes, in their order. Throws ConfigError if they are
// fewer than `needed`. The error names the processes on the other GPUs: id, name, memory.
std::vector<Gpu> unheld_gpus(std::span<const Gpu> gpus, size_t needed);

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
