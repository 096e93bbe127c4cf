#include "contract/devices/device_requirements.h"

#include <catch2/catch.hpp>

using namespace fsdp;
using Catch::Matchers::Contains;

namespace {

const TrainerBuild kCuda13{"2.11.0", "13.0", "2.28.9", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"};
const TrainerBuild kCuda12{"2.10.0", "12.8", "2.27.5",
                           "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"};

bool fits(const std::string& architectures, ComputeCapability capability) {
  return !gpu_misfit({"2.11.0", "13.0", "2.28.9", architectures}, "A GPU", capability);
}

}  // namespace

TEST_CASE("a driver serves the CUDA of its own major version and all before it") {
  CHECK_FALSE(driver_misfit(kCuda13, {"580.65.06", "13.0"}));
  CHECK_FALSE(driver_misfit(kCuda12, {"580.65.06", "13.0"}));
  CHECK_FALSE(driver_misfit(kCuda12, {"525.60.13", "12.0"}));
  CHECK_FALSE(driver_misfit(kCuda13, {"550.54.15", "13.0"}));  // with CUDA's compatibility package
  CHECK_FALSE(driver_misfit({"2.11.0", "", "", ""}, {"470.82.01", "11.4"}));
  CHECK_FALSE(driver_misfit(kCuda13, {"", ""}));
}

TEST_CASE("a driver that is too old is named, with what it serves and what to do") {
  const auto misfit = driver_misfit(kCuda13, {"550.54.15", "12.4"});
  REQUIRE(misfit);
  CHECK(
      misfit->problem ==
      "the NVIDIA driver 550.54.15 serves CUDA up to 12.4, and fsdp-train is built for CUDA 13.0");
  CHECK_THAT(misfit->remedy,
             Contains("580 or newer") && Contains("FSDP_CUDA=12") && Contains("device: cpu"));

  const auto older = driver_misfit(kCuda12, {"470.82.01", "11.4"});
  REQUIRE(older);
  CHECK_THAT(older->problem, Contains("470.82.01") && Contains("11.4") && Contains("12.8"));
  CHECK_THAT(older->remedy, Contains("525 or newer") && !Contains("FSDP_CUDA"));
  CHECK_THAT(driver_misfit(kCuda13, {"470.82.01", "11.4"})->remedy, !Contains("FSDP_CUDA"));
}

TEST_CASE("a GPU without kernels is named, with its capability and what to do") {
  CHECK_FALSE(gpu_misfit(kCuda12, "Tesla V100-SXM2-32GB", {7, 0}));
  const auto volta = gpu_misfit(kCuda13, "Tesla V100-SXM2-32GB", {7, 0});
  REQUIRE(volta);
  CHECK(volta->problem ==
        "Tesla V100-SXM2-32GB has compute capability 7.0, and fsdp-train's PyTorch 2.11.0 for CUDA "
        "13.0 has kernels for sm_75 sm_80 sm_86 sm_90 sm_100 sm_120");
  CHECK_THAT(volta->remedy, Contains("FSDP_CUDA=12") && Contains("device: cpu"));
  // GPUs that are older or newer than all architectures of the build.
  const TrainerBuild without_volta{"2.11.0", "12.8", "2.28.9", "sm_75 sm_80"};
  for (const auto& [build, capability] : std::vector<std::pair<TrainerBuild, ComputeCapability>>{
           {kCuda13, {6, 0}}, {kCuda12, {6, 0}}, {without_volta, {7, 0}}, {kCuda13, {13, 0}}}) {
    CHECK_THAT(gpu_misfit(build, "A GPU", capability)->remedy,
               Contains("FSDP_TORCH") && !Contains("FSDP_CUDA"));
  }
}

TEST_CASE("which kernels run on which GPU") {
  CHECK(fits("sm_80", {8, 0}));
  CHECK(fits("sm_80", {8, 9}));
  CHECK_FALSE(fits("sm_86", {8, 0}));
  CHECK_FALSE(fits("sm_80", {9, 0}));
  CHECK_FALSE(fits("sm_80", {7, 5}));
  CHECK(fits("sm_100", {10, 3}));
  CHECK_FALSE(fits("sm_100", {12, 0}));
  CHECK(fits("sm_90a", {9, 0}));
  CHECK_FALSE(fits("sm_100a", {10, 3}));
  CHECK(fits("compute_80", {12, 0}));
  CHECK_FALSE(fits("compute_80", {7, 5}));
  CHECK_FALSE(fits("compute_90a", {10, 0}));
  CHECK(fits("sm_50 sm_80", {8, 0}));
  CHECK(fits("", {3, 5}));
}

TEST_CASE("versions of CUDA as it counts them") {
  CHECK(cuda_version_text(12040) == "12.4");
  CHECK(cuda_version_text(13010) == "13.1");
}
