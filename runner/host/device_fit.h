#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "contract/record/device_requirements.h"
#include "contract/record/nvml.h"

// Whether a trainer's libraries fit this host's driver and GPUs.
namespace fsdp {

// What the trainer says of itself; nullopt when it does not start here.
std::optional<TrainerBuild> build_of(const std::filesystem::path& trainer);

struct NvidiaHost {
  NvidiaDriver driver;
  std::vector<Gpu> gpus;
  std::string problem;  // of a driver that is there and does not answer
};
NvidiaHost nvidia_of_host();

// One of a kind, of the driver and of each kind of GPU. Empty for a trainer without CUDA.
std::vector<Misfit> misfits(const TrainerBuild& build, const NvidiaDriver& driver,
                            const std::vector<Gpu>& gpus);

}  // namespace fsdp
