// Turns on deterministic algorithms. Must run before CUDA begins.
#include "trainer/train/determinism.h"

#include <ATen/Context.h>

#include <cstdlib>
#include <string>

#include "base/text/config_error.h"

namespace fsdp {
namespace {

// If streams run in parallel, cuBLAS may choose workspaces, and so algorithms, by their timing.
// With these settings it always makes the same choice.
constexpr const char* kVariable = "CUBLAS_WORKSPACE_CONFIG";
constexpr const char* kEightOf4MiB = ":4096:8";
constexpr const char* kEightOf16KiB = ":16:8";

void fix_workspaces_of_cublas() {
  setenv(kVariable, kEightOf4MiB, /*overwrite=*/0);
  const std::string value = std::getenv(kVariable);
  if (value == kEightOf4MiB || value == kEightOf16KiB) return;
  throw ConfigError("environment", kVariable,
                    "'" + value + "' lets cuBLAS choose; train.deterministic allows " +
                        kEightOf4MiB + " and " + kEightOf16KiB + "; unset it for the first");
}

}  // namespace

void make_deterministic() {
  fix_workspaces_of_cublas();
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setDeterministicFillUninitializedMemory(false);
}

}  // namespace fsdp
