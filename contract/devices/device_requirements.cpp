// Says if a driver and GPUs suffice for a trainer's CUDA libraries, and else what to do.
#include "contract/devices/device_requirements.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace fsdp {
namespace {

constexpr const char* kBuildForCuda12 =
    "build fsdp-train for CUDA 12, which takes drivers from 525 and GPUs from compute capability "
    "7.0 on (export FSDP_CUDA=12, then call ./fsdp-run)";
constexpr const char* kOrCpu = ", or set device: cpu";

// 12 for "12.4"; 0 for "".
int major_of(const std::string& version) { return std::atoi(version.c_str()); }

// "sm_86" runs on 8.6 and 8.9, "sm_90a" only on 9.0. "compute_90" is compiled when it is loaded,
// and runs on 9.0 and all later ones.
bool runs_on(const std::string& architecture, ComputeCapability capability) {
  const size_t digits = architecture.find('_') + 1;
  const int number = std::atoi(architecture.c_str() + digits);
  const ComputeCapability least{number / 10, number % 10};
  if (architecture.ends_with('a')) return capability == least;
  if (architecture.starts_with("compute_")) return capability >= least;
  return capability.major == least.major && capability >= least;
}

}  // namespace

std::string text_of(ComputeCapability capability) {
  return std::to_string(capability.major) + '.' + std::to_string(capability.minor);
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

std::optional<Misfit> driver_misfit(const TrainerBuild& build, const NvidiaDriver& driver) {
  const int served = major_of(driver.cuda_version);
  const int needed = major_of(build.cuda_version);
  if (served == 0 || served >= needed) return std::nullopt;
  const std::string name = driver.version.empty() ? "here" : driver.version;
  const std::string update = needed >= 13 ? "have the driver updated to 580 or newer"
                                          : "have the driver updated to 525 or newer";
  return Misfit{"the NVIDIA driver " + name + " serves CUDA up to " + driver.cuda_version +
                    ", and fsdp-train is built for CUDA " + build.cuda_version,
                (served >= 12 ? update + ", " + kBuildForCuda12 : update) + kOrCpu};
}

bool has_kernels_for(const std::string& architectures, ComputeCapability capability) {
  std::istringstream words(architectures);
  for (std::string architecture; words >> architecture;) {
    if (runs_on(architecture, capability)) return true;
  }
  return false;
}

std::optional<Misfit> gpu_misfit(const TrainerBuild& build, const std::string& gpu_name,
                                 ComputeCapability capability) {
  if (build.architectures.empty() || has_kernels_for(build.architectures, capability)) {
    return std::nullopt;
  }
  const bool needs_cuda_12 = major_of(build.cuda_version) > 12 &&
                             capability >= ComputeCapability{7, 0} &&
                             capability < ComputeCapability{7, 5};
  return Misfit{gpu_name + " has compute capability " + text_of(capability) +
                    ", and fsdp-train's PyTorch " + build.torch_version + " for CUDA " +
                    build.cuda_version + " has kernels for " + build.architectures,
                (needs_cuda_12 ? std::string(kBuildForCuda12)
                               : "name a PyTorch that has kernels for it in FSDP_TORCH and call "
                                 "./fsdp-run, or use another GPU") +
                    kOrCpu};
}

}  // namespace fsdp
