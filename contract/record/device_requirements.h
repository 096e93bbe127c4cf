#pragma once

#include <compare>
#include <optional>
#include <string>

#include "contract/text/fields.h"

// What the CUDA libraries of a trainer need of a host's driver and GPUs.
namespace fsdp {

// "8.0" of an A100: which kernels a GPU can run.
struct ComputeCapability {
  int major = 0;
  int minor = 0;

  auto operator<=>(const ComputeCapability&) const = default;
};

std::string text_of(ComputeCapability capability);

// 12040, as CUDA counts, is "12.4".
std::string cuda_version_text(int version);

// What fsdp-train was built with. `fsdp-train --version` prints it as JSON.
struct TrainerBuild {
  std::string torch_version;
  std::string cuda_version;  // empty in the CPU variant, as the next two
  std::string nccl_version;
  std::string
      architectures;  // "sm_75 sm_80", of its kernels; also empty where PyTorch does not say

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("torch_version", self.torch_version, "Version of libtorch.", any_value());
    visit("cuda_version", self.cuda_version, "Version of CUDA.", any_value());
    visit("nccl_version", self.nccl_version, "Version of NCCL.", any_value());
    visit("architectures", self.architectures, "GPUs that there are kernels for.", any_value());
  }
};

struct NvidiaDriver {
  std::string version;       // "550.54.15"; empty: there is none, or it does not say
  std::string cuda_version;  // the newest that it serves
};

// What keeps the trainer from using a GPU, as a clause, and what to do.
struct Misfit {
  std::string problem;
  std::string remedy;

  bool operator==(const Misfit&) const = default;
};

// Nullopt where the driver serves the trainer's CUDA, and where it does not say what it serves.
std::optional<Misfit> driver_misfit(const TrainerBuild& build, const NvidiaDriver& driver);

// Whether kernels for these, "sm_75 sm_80 compute_100", run on a GPU.
bool has_kernels_for(const std::string& architectures, ComputeCapability capability);

// Nullopt where there are kernels for the GPU, and where it is not known which there are.
std::optional<Misfit> gpu_misfit(const TrainerBuild& build, const std::string& gpu_name,
                                 ComputeCapability capability);

}  // namespace fsdp
