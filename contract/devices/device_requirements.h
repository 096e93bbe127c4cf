#pragma once

#include <compare>
#include <optional>
#include <string>

#include "base/text/fields.h"

// The driver and the GPUs that a trainer's CUDA libraries need on a host.
namespace fsdp {

// Says which kernels a GPU can run: "8.0" for an A100.
struct ComputeCapability {
  int major = 0;
  int minor = 0;

  auto operator<=>(const ComputeCapability&) const = default;
};

std::string text_of(ComputeCapability capability);

// Returns "12.4" for 12040, which is CUDA's form of it.
std::string cuda_version_text(int version);

// The libraries that fsdp-train was built with. `fsdp-train --version` prints them as JSON.
struct TrainerBuild {
  std::string torch_version;
  std::string cuda_version;  // empty in the CPU variant, like the next two
  std::string nccl_version;
  // The architectures of GPUs that PyTorch has kernels for: "sm_75 sm_80". Also empty if PyTorch
  // does not say.
  std::string architectures;

  static void visit_fields(auto& self, auto&& visit) {
    visit("torch_version", self.torch_version);
    visit("cuda_version", self.cuda_version);
    visit("nccl_version", self.nccl_version);
    visit("architectures", self.architectures);
  }
};

struct NvidiaDriver {
  std::string version;       // "550.54.15"; empty: no driver, or it does not say
  std::string cuda_version;  // the newest CUDA that it supports
};

// A reason why the trainer cannot use a GPU, as a clause, and its remedy.
struct Misfit {
  std::string problem;
  std::string remedy;

  bool operator==(const Misfit&) const = default;
};

// nullopt if the driver supports the trainer's CUDA version, or does not say which it supports.
std::optional<Misfit> driver_misfit(const TrainerBuild& build, const NvidiaDriver& driver);

// True if kernels for `architectures`, such as "sm_75 sm_80 compute_100", run on the GPU.
bool has_kernels_for(const std::string& architectures, ComputeCapability capability);

// nullopt if there are kernels for the GPU, or if the build does not say which kernels it has.
std::optional<Misfit> gpu_misfit(const TrainerBuild& build, const std::string& gpu_name,
                                 ComputeCapability capability);

}  // namespace fsdp
