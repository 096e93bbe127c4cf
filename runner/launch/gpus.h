#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/record/nvml.h"

// The GPUs of this host and who holds them.
namespace fsdp {

// All GPUs; empty without a driver. Throws std::runtime_error when a driver is there and fails.
std::vector<Gpu> find_gpus();

// The GPUs that `list` names, in its order: indices or beginnings of UUIDs, separated by commas, as
// in --gpus and CUDA_VISIBLE_DEVICES. `place` says where the list is from. Throws ConfigError on
// one that is not found or named twice.
std::vector<Gpu> choose_gpus(const std::vector<Gpu>& found, std::string_view list,
                             const std::string& place);

// Those of `gpus` that no process computes on, in their order. Throws ConfigError when they are
// fewer than `needed`, naming who holds the others: GPU, process id, name, memory.
std::vector<Gpu> unheld_gpus(std::span<const Gpu> gpus, size_t needed);

}  // namespace fsdp
