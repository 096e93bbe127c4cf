#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/devices/nvml.h"

// Finds the GPUs of this host and the processes that hold them.
namespace fsdp {

// All GPUs; empty without a driver. Throws std::runtime_error if a driver exists but fails.
std::vector<Gpu> find_gpus();

// Returns the GPUs in `list`, in its order. The list holds indices or UUID prefixes, separated by
// commas, as in --gpus and CUDA_VISIBLE_DEVICES. `place` names the list's source. Throws
// ConfigError if a GPU is not found or named twice.
std::vector<Gpu> choose_gpus(const std::vector<Gpu>& found, std::string_view list,
                             const std::string& place);

// Returns the GPUs without computing processes, in their order. Throws ConfigError if they are
// fewer than `needed`. The error names the holders of the others: GPU, process id, name, memory.
std::vector<Gpu> unheld_gpus(std::span<const Gpu> gpus, size_t needed);

}  // namespace fsdp
