#include "trainer/plan/cuda_workspaces.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>

namespace fsdp {
namespace {

constexpr int64_t kMib = int64_t{1} << 20;

CudaWorkspaces with(int capability, std::map<std::string, std::string> variables) {
  return cuda_workspaces(capability, [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST_CASE("cuBLAS takes 32 MiB on a Hopper GPU, and little more than 8 MiB on others") {
  CHECK(with(90, {}) == CudaWorkspaces{.cublas_bytes = 32 * kMib, .cublaslt_bytes = kMib});
  for (const int capability : {70, 80, 86, 89, 100, 120}) {
    CHECK(with(capability, {}) ==
          CudaWorkspaces{.cublas_bytes = 8 * kMib + kMib / 8, .cublaslt_bytes = kMib});
  }
}

TEST_CASE("the environment says what cuBLAS takes instead") {
  // A deterministic run sets this.
  CHECK(with(80, {{"CUBLAS_WORKSPACE_CONFIG", ":4096:8"}}).cublas_bytes == 32 * kMib);
  CHECK(with(90, {{"CUBLAS_WORKSPACE_CONFIG", ":4096:2:16:8"}}).cublas_bytes ==
        8 * kMib + kMib / 8);
  CHECK(with(80, {{"CUBLAS_WORKSPACE_CONFIG", "4096"}}) == with(80, {}));
  CHECK(with(80, {{"CUBLASLT_WORKSPACE_SIZE", "4096"}}).cublaslt_bytes == 4 * kMib);
  CHECK(with(80, {{"CUBLASLT_WORKSPACE_SIZE", "much"}}).cublaslt_bytes == kMib);
}

TEST_CASE("cuBLASLt takes no more than cuBLAS, unless told that they are apart") {
  const std::string small = ":16:8", large = "65536";
  CHECK(with(80, {{"CUBLAS_WORKSPACE_CONFIG", small}}).cublaslt_bytes == kMib / 8);
  CHECK(with(80, {{"CUBLASLT_WORKSPACE_SIZE", large}}) ==
        CudaWorkspaces{.cublas_bytes = 8 * kMib + kMib / 8, .cublaslt_bytes = 8 * kMib + kMib / 8});
  CHECK(with(80, {{"CUBLASLT_WORKSPACE_SIZE", large}, {"TORCH_CUBLASLT_UNIFIED_WORKSPACE", "0"}})
            .cublaslt_bytes == 64 * kMib);
  CHECK(with(80, {{"TORCH_CUBLASLT_UNIFIED_WORKSPACE", "1"}}).cublaslt_bytes == 0);
}

}  // namespace
}  // namespace fsdp
