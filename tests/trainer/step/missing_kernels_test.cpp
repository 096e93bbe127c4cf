#include "trainer/step/missing_kernels.h"

#include "contract/spec/run_spec_yaml.h"
#include "tests/contract/applied_overrides.h"
#include "tests/contract/input_fixtures.h"

namespace fsdp::missing_kernels_test {

using Catch::Contains;

TEST_CASE("a GPU's run is told before it starts what a program without nvcc lacks") {
  const auto refuse = [](const char* keys, at::DeviceType device, bool has_kernels) {
    refuse_without_cuda_kernels(applied(keys), device, has_kernels);
  };
  for (const char* keys : {"method: qlora", "optimizer.state_dtype: int8"}) {
    CHECK_THAT(refusal([&] { refuse(keys, at::kCUDA, false); }),
               Contains("nvcc was missing; install the CUDA toolkit") &&
                   Contains("remove build/cuda") && Contains("or set"));
    CHECK_NOTHROW(refuse(keys, at::kCUDA, true));
    CHECK_NOTHROW(refuse(keys, at::kCPU, false));
  }
  CHECK_NOTHROW(refuse("{optimizer.state_dtype: int8, strategy.offload: optimizer}", at::kCUDA,
                       false));  // stepped on the host
}

TEST_CASE("rounding at random without nvcc is called slow, where it is") {
  const auto note = [](const std::string& keys, at::DeviceType device, bool has_kernels) {
    return slow_rounding_note(applied("{optimizer.rounding: stochastic, " + keys + "}"), device,
                              has_kernels);
  };
  for (const char* keys : {"precision: bf16_true", "optimizer.state_dtype: bf16"}) {
    CHECK_THAT(note(keys, at::kCUDA, false),
               Contains("592 bytes an element in place of 14") && Contains("nvcc was missing"));
    CHECK(note(keys, at::kCUDA, true).empty());
    CHECK(note(keys, at::kCPU, false).empty());
  }
  CHECK(note("precision: bf16_mixed", at::kCUDA, false).empty());
  CHECK(note("precision: bf16_true, strategy.offload: optimizer", at::kCUDA, false).empty());
}

}  // namespace fsdp::missing_kernels_test
