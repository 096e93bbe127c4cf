#include "trainer/kernels/cross_entropy_kernels.h"

#include <c10/cuda/CUDAFunctions.h>

#include <catch2/catch.hpp>

#include "tests/trainer/kernels/observed_calls.h"
#include "tests/trainer/kernels/without_gpu.h"
#include "trainer/kernels/aten_kernels.h"

namespace fsdp {
namespace {

using Catch::Matchers::Contains;

constexpr int64_t kRows = 6;
constexpr int64_t kVocabulary = 1001;

struct Arguments {
  Arguments(at::ScalarType type, at::DeviceType device)
      : logits(at::zeros({kRows, kVocabulary}, at::TensorOptions(device).dtype(type))),
        labels(at::zeros({kRows, 1}, at::TensorOptions(device).dtype(at::kLong))),
        losses(at::zeros({kRows, 1}, at::TensorOptions(device).dtype(at::kFloat))) {}

  at::Tensor logits;
  at::Tensor labels;
  at::Tensor losses;
};

}  // namespace

TEST_CASE("cross-entropy reaches its launch, and wrong tensors do not", "[cross_entropy]") {
  if (c10::cuda::device_count() > 0) return;  // the tensors lie in host memory
  CrossEntropyKernels<AtenKernels> kernels;
  const Arguments given(GENERATE(at::kFloat, at::kHalf, at::kBFloat16), at::kCPU);
  CHECK_THAT(error_of([&] { kernels.cross_entropy(given.logits, given.labels, given.losses); }),
             SAYS_THAT_THERE_IS_NO_GPU);
  CHECK_THAT(
      error_of([&] { kernels.evaluate_cross_entropy(given.logits, given.labels, given.losses); }),
      SAYS_THAT_THERE_IS_NO_GPU);
  CHECK_THAT(error_of([&] {
               kernels.cross_entropy(given.logits, given.labels, given.losses.narrow(0, 0, 5));
             }),
             Contains("room for 5 losses"));
  CHECK_THAT(error_of([&] { kernels.cross_entropy(given.logits.t(), given.labels, given.losses); }),
             Contains("should be contiguous"));
}

TEST_CASE("cross-entropy on meta launches once and allocates only the tokens", "[cross_entropy]") {
  CrossEntropyKernels<AtenKernels> kernels;
  const Arguments given(at::kBFloat16, at::kMeta);
  const int64_t logits_bytes = kRows * kVocabulary * 2;
  {
    const ObservedCalls calls;
    kernels.cross_entropy(given.logits, given.labels, given.losses);
    CHECK(calls.names_of_launches() == std::vector<std::string>{"cross_entropy"});
    CHECK(calls.allocations().empty());
    CHECK(calls.call("cross_entropy").read_bytes == logits_bytes + kRows * 8);
    CHECK(calls.call("cross_entropy").written_bytes == logits_bytes + kRows * 4);
  }
  const ObservedCalls calls;
  const at::Tensor tokens =
      kernels.evaluate_cross_entropy(given.logits, given.labels, given.losses);
  CHECK(tokens.sizes() == given.labels.sizes());
  CHECK(calls.names_of_launches() == std::vector<std::string>{"cross_entropy_evaluation"});
  CHECK(calls.allocations() == std::vector<int64_t>{kRows * 8});
}

}  // namespace fsdp
