#include "trainer/backend/make_kernels.h"

#include <catch2/catch.hpp>

#include "base/text/config_error.h"

namespace fsdp::make_kernels_test {

TEST_CASE("kernels that were not compiled for a GPU are refused by its capability") {
  const std::string built = "sm_75 sm_80 compute_100";
  const auto require = [&](KernelSet set, ComputeCapability capability) {
    require_kernels_for(set, built, capability);
  };
  CHECK_NOTHROW(require(KernelSet::kTransformerEngine, {8, 6}));
  CHECK_NOTHROW(require(KernelSet::kTransformerEngine, {12, 0}));
  CHECK_THROWS_AS(require(KernelSet::kTransformerEngine, {6, 1}), ConfigError);
  CHECK_THROWS_WITH(require(KernelSet::kTransformerEngine, {6, 1}),
                    "'kernels': transformer_engine is built for sm_75 sm_80 compute_100, and this "
                    "GPU has compute capability 6.1; use another GPU, or set kernels: aten");
  CHECK_THROWS_WITH(
      require(KernelSet::kAten, {6, 1}),
      "'kernels': fsdp-train's own kernels are built for sm_75 sm_80 compute_100, and "
      "this GPU has compute capability 6.1; use another GPU");
  CHECK_NOTHROW(require(KernelSet::kAten, {8, 9}));
  CHECK_NOTHROW(require_kernels_for(KernelSet::kTransformerEngine, "", ComputeCapability{6, 1}));
  CHECK_NOTHROW(require_kernels_for(KernelSet::kTransformerEngine, at::kCPU));  // no GPU
}

}  // namespace fsdp::make_kernels_test
