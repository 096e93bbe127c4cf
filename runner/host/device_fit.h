#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "contract/record/device_requirements.h"
#include "contract/record/nvml.h"

// Checks if a trainer's libraries fit this host's driver and GPUs.
namespace fsdp {

// Returns the build that the trainer reports; nullopt if the trainer does not start here.
std::optional<TrainerBuild> build_of(const std::filesystem::path& trainer);

struct NvidiaHost {
  NvidiaDriver driver;
  std::vector<Gpu> gpus;
  std::string problem;  // set if a driver is there and does not answer
};
NvidiaHost nvidia_of_host();

// Returns each misfit of the driver and of the kinds of GPUs once; none if the trainer has no CUDA.
std::vector<Misfit> misfits(const TrainerBuild& build, const NvidiaDriver& driver,
                            const std::vector<Gpu>& gpus);

}  // namespace fsdp
