// Chooses a device's kernels. Transformer Engine is loaded at run time, only where it is asked for.
#pragma GCC diagnostic ignored "-Wreturn-type"
#include "trainer/backend/make_kernels.h"

#include <dlfcn.h>
#ifdef FSDP_CUDA
#include <c10/cuda/CUDAException.h>
#endif

#include <filesystem>

#include "base/text/config_error.h"
#include "trainer/kernels/aten_kernels.h"

namespace fsdp {
namespace {

[[noreturn]] void refuse(const std::string& problem) {
  throw ConfigError("", "kernels", "transformer_engine " + problem + ", or set kernels: aten");
}

// The library lies beside the program, in lib/, and stays loaded.
std::unique_ptr<Kernels> load_transformer_engine_kernels(int capability_major) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path library =
      program.parent_path() / "lib/libtransformer_engine_kernels.so";
  if (!std::filesystem::exists(library)) {
    refuse("was not there when the trainer was built: " + library.string() +
           " is missing; install the wheel transformer-engine-cu13 2.12.0 (for CUDA 12 "
           "transformer-engine-cu12) beside torch and build with cmake --preset cuda");
  }
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    refuse(std::string("does not load (") + dlerror() +
           "); install the wheel transformer-engine-cu13 2.12.0 (for CUDA 12 "
           "transformer-engine-cu12) beside torch");
  }
  using Make = Kernels* (*)(int);
  const auto make = reinterpret_cast<Make>(dlsym(handle, "fsdp_make_transformer_engine_kernels"));
  TORCH_CHECK(make != nullptr, library.string(), " is not the trainer's");
  return std::unique_ptr<Kernels>(make(capability_major));
}

}  // namespace

void require_kernels_for(KernelSet set, const std::string& architectures,
                         ComputeCapability capability) {
  if (architectures.empty() || has_kernels_for(architectures, capability)) return;
  const std::string misfit = "built for " + architectures +
                             ", and this GPU has compute capability " + text_of(capability) +
                             "; use another GPU";
  if (set == KernelSet::kTransformerEngine) refuse("is " + misfit);
  throw ConfigError("", "kernels", "fsdp-train's own kernels are " + misfit);
}

void require_kernels_for([[maybe_unused]] KernelSet set, [[maybe_unused]] at::Device device) {
#ifdef FSDP_CUDA
  if (device.is_cuda()) {
    require_kernels_for(set, FSDP_KERNEL_ARCHITECTURES, capability_of(device));
  }
#endif
}

ComputeCapability capability_of([[maybe_unused]] at::Device device) {
  ComputeCapability capability;
#ifdef FSDP_CUDA
  if (!device.is_cuda()) return capability;
  C10_CUDA_CHECK(
      cudaDeviceGetAttribute(&capability.major, cudaDevAttrComputeCapabilityMajor, device.index()));
  C10_CUDA_CHECK(
      cudaDeviceGetAttribute(&capability.minor, cudaDevAttrComputeCapabilityMinor, device.index()));
#endif
  return capability;
}

std::unique_ptr<Kernels> make_kernels(KernelSet set, c10::DeviceType device, int capability_major) {
  switch (set) {
    case KernelSet::kAuto:
    case KernelSet::kAten:
      return std::make_unique<AtenKernels>(device, capability_major);
    case KernelSet::kTransformerEngine:
      if (device != at::kCUDA) refuse("needs device: cuda");
      return load_transformer_engine_kernels(capability_major);
  }
  TORCH_CHECK(false, "not a set of kernels");
}

}  // namespace fsdp
