#include "trainer/backend/make_kernels.h"

#include <dlfcn.h>

#include <filesystem>

#include "contract/text/config_error.h"
#include "trainer/kernels/aten_kernels.h"

namespace fsdp {
namespace {

[[noreturn]] void refuse(const std::string& problem) {
  throw ConfigError("", "kernels", "transformer_engine " + problem + ", or set kernels: aten");
}

// Beside the program, in lib/. It stays loaded.
std::unique_ptr<Kernels> load_transformer_engine_kernels() {
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
  using Make = Kernels* (*)();
  const auto make = reinterpret_cast<Make>(dlsym(handle, "fsdp_make_transformer_engine_kernels"));
  TORCH_CHECK(make != nullptr, library.string(), " is not the trainer's");
  return std::unique_ptr<Kernels>(make());
}

}  // namespace

std::unique_ptr<Kernels> make_kernels(KernelSet set, c10::DeviceType device) {
  switch (set) {
    case KernelSet::kAuto:
    case KernelSet::kAten:
      return std::make_unique<AtenKernels>(device);
    case KernelSet::kTransformerEngine:
      if (device != at::kCUDA) refuse("needs device: cuda");
      return load_transformer_engine_kernels();
  }
  TORCH_CHECK(false, "not a set of kernels");
}

}  // namespace fsdp
