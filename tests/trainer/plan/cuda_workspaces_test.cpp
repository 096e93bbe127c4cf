#include "trainer/plan/cuda_workspaces.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>

namespace fsdp::cuda_workspaces_test {

constexpr int64_t kMib = int64_t{1} << 20;

using Variables = std::map<std::string, std::string>;

CudaWorkspaces with(int capability, Variables variables) {
  return cuda_workspaces(capability, [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

// plan_cuda_test compares the other settings with libtorch, which reads this one only once.
TEST_CASE("cuBLASLt takes no more than cuBLAS, unless told that they are apart") {
  const Variables large{{"CUBLASLT_WORKSPACE_SIZE", "65536"}};
  const Variables apart{{"CUBLASLT_WORKSPACE_SIZE", "65536"},
                        {"TORCH_CUBLASLT_UNIFIED_WORKSPACE", "0"}};
  CHECK(with(80, large).cublaslt_bytes == 8 * kMib + kMib / 8);
  CHECK(with(80, apart).cublaslt_bytes == 64 * kMib);
  CHECK(with(80, {{"TORCH_CUBLASLT_UNIFIED_WORKSPACE", "1"}}).cublaslt_bytes == 0);
  CHECK(with(90, {}) == CudaWorkspaces{.cublas_bytes = 32 * kMib, .cublaslt_bytes = kMib});
}

}  // namespace fsdp::cuda_workspaces_test
