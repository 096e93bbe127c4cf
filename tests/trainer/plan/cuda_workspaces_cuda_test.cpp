#include <ATen/cuda/CUDAContextLight.h>
#include <c10/util/Exception.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/fakes/cuda/fake_cuda.h"
#include "trainer/plan/cuda_workspaces.h"

namespace fsdp::test::cuda_workspaces_cuda_test {

// Drops libtorch's warnings about settings that it cannot read.
class NoWarnings : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

void check_on_every_gpu() {
  for (int device = 0; device < fake_cuda::gpu_count(); ++device) {
    cudaSetDevice(device);
    const int capability = 70 + 10 * (device % 4);
    CAPTURE(capability);
    const auto lookup = [](const std::string& name) {
      const char* value = std::getenv(name.c_str());
      return value ? std::optional<std::string>(value) : std::nullopt;
    };
    const CudaWorkspaces planned = cuda_workspaces(capability, lookup);
    CHECK(planned.cublas_bytes == static_cast<int64_t>(at::cuda::getChosenWorkspaceSize()));
    CHECK(planned.cublaslt_bytes == static_cast<int64_t>(at::cuda::getCUDABlasLtWorkspaceSize()));
  }
  cudaSetDevice(0);
}

TEST_CASE("planned workspaces are as large as libtorch's") {
  NoWarnings no_warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&no_warnings);
  const char* variables[] = {"CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE"};
  for (const char* variable : variables) unsetenv(variable);
  check_on_every_gpu();
  for (const char* config : {":4096:8", ":16:8", ":4096:2:16:8", "none"}) {
    for (const char* size : {"512", "65536", "much"}) {
      CAPTURE(config, size);
      setenv(variables[0], config, 1);
      setenv(variables[1], size, 1);
      check_on_every_gpu();
    }
  }
  for (const char* variable : variables) unsetenv(variable);
}

}  // namespace fsdp::test::cuda_workspaces_cuda_test
