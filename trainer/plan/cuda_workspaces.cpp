// Computes the workspaces that libtorch keeps for cuBLAS, as libtorch reads the variables.
#include "trainer/plan/cuda_workspaces.h"

#include <torch/version.h>

#include <algorithm>
#include <charconv>
#include <regex>
#include <string>

// Comments name the function of libtorch's CublasHandlePool.cpp that does the same.

namespace fsdp {
namespace {

constexpr int64_t kKib = 1024;

// parseChosenWorkspaceSize (CublasHandlePool.cpp:160): ":4096:2:16:8" stands for two buffers of
// 4096 KiB and eight of 16 KiB.
int64_t read_cublas_bytes(int capability, const EnvironmentLookup& lookup) {
  const int64_t by_default = capability == 90 ? 32 * kKib * kKib : (2 * 4096 + 8 * 16) * kKib;
  const std::string text = lookup("CUBLAS_WORKSPACE_CONFIG").value_or("");
  static const std::regex buffers(":([0-9]+):([0-9]+)");
  auto match = std::sregex_iterator(text.begin(), text.end(), buffers);
  if (match == std::sregex_iterator()) return by_default;
  int64_t bytes = 0;
  for (; match != std::sregex_iterator(); ++match) {
    bytes += std::stoll(match->str(1)) * kKib * std::stoll(match->str(2));
  }
  return bytes;
}

// parseCUDABlasLtWorkspaceSize (CublasHandlePool.cpp:193), in KiB.
int64_t read_cublaslt_bytes(const EnvironmentLookup& lookup) {
  int kib = 1024;
  const std::string text = lookup("CUBLASLT_WORKSPACE_SIZE").value_or("");
  std::from_chars(text.data(), text.data() + text.size(), kib);
  return kib * kKib;
}

}  // namespace

CudaWorkspaces cuda_workspaces(int capability, const EnvironmentLookup& lookup) {
  const int64_t cublas_bytes = read_cublas_bytes(capability, lookup);
  // getCUDABlasLtWorkspaceSize and getCUDABlasLtWorkspace disagree from 2.11 on if the variable is
  // not set. The size is limited by the cuBLAS workspace, but the memory is not shared.
  constexpr bool kIsLimitedByDefault = TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 11;
  const std::string unified = lookup("TORCH_CUBLASLT_UNIFIED_WORKSPACE").value_or("");
  if (unified == "1") return {.cublas_bytes = cublas_bytes, .cublaslt_bytes = 0};
  int64_t cublaslt_bytes = read_cublaslt_bytes(lookup);
  const bool is_limited = unified.empty() ? kIsLimitedByDefault : unified != "0";
  if (is_limited) cublaslt_bytes = std::min(cublaslt_bytes, cublas_bytes);
  return {.cublas_bytes = cublas_bytes, .cublaslt_bytes = cublaslt_bytes};
}

}  // namespace fsdp
