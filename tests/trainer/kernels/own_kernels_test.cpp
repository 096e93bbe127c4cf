#include "trainer/kernels/own_kernels.h"

#include <c10/cuda/CUDAFunctions.h>

#include <catch2/catch.hpp>

#include "tests/trainer/error_of.h"
#include "tests/trainer/kernels/observed_calls.h"
#include "trainer/kernels/aten_kernels.h"
#include "trainer/step/fused_adam.h"

namespace fsdp::own_kernels_test {

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

TEST_CASE("cross-entropy reaches its launch, and wrong tensors do not", "[cross_entropy]") {
  if (c10::cuda::device_count() > 0) return;  // the tensors lie in host memory
  AtenKernels kernels(c10::kCUDA);
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
  AtenKernels kernels(c10::kCUDA);
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

TEST_CASE("SwiGLU and its gradient reach their launches, and wrong tensors do not", "[swiglu]") {
  if (c10::cuda::device_count() > 0) return;  // the tensors lie in host memory
  AtenKernels kernels(c10::kCUDA);
  const auto type = GENERATE(at::kFloat, at::kHalf, at::kBFloat16);
  const at::Tensor dh = at::zeros({kRows, 24}, type);
  const at::Tensor gate_up = at::zeros({kRows, 48}, type);
  CHECK_THAT(error_of([&] { kernels.swiglu(gate_up); }), SAYS_THAT_THERE_IS_NO_GPU);
  CHECK_THAT(error_of([&] { kernels.swiglu_backward(dh, gate_up); }), SAYS_THAT_THERE_IS_NO_GPU);
  CHECK_THAT(error_of([&] { kernels.swiglu_backward(gate_up, gate_up); }),
             Contains("gate and up of [6, 48] for dh of [6, 48]"));
  CHECK_THAT(error_of([&] { kernels.swiglu_backward(dh.t(), gate_up); }),
             Contains("should be contiguous"));
}

TEST_CASE("the gradient of SwiGLU on meta launches once, and h takes dh's memory", "[swiglu]") {
  AtenKernels kernels(c10::kCUDA);
  const auto meta = at::TensorOptions(at::kBFloat16).device(at::kMeta);
  const at::Tensor dh = at::empty({kRows, 24}, meta);
  const at::Tensor gate_up = at::empty({kRows, 48}, meta);
  const ObservedCalls calls;
  const auto gradients = kernels.swiglu_backward(dh, gate_up);
  CHECK(gradients.h_NF.is_same(dh));
  CHECK(gradients.d_gate_up_N2F.sizes() == gate_up.sizes());
  CHECK(calls.names_of_launches() == std::vector<std::string>{"swiglu_backward"});
  CHECK(calls.allocations() == std::vector<int64_t>{kRows * 48 * 2});
}

TEST_CASE("a rotation reaches its launch, and wrong tensors do not", "[rotary]") {
  if (c10::cuda::device_count() > 0) return;  // the tensors lie in host memory
  const at::Tensor packed =
      at::zeros({2, 3, 4, 16}, GENERATE(at::kFloat, at::kHalf, at::kBFloat16));
  const at::Tensor angles = at::zeros({3, 1, 8}, packed.options());
  CHECK_THAT(error_of([&] { own::rotate(packed, 2, angles, angles); }), SAYS_THAT_THERE_IS_NO_GPU);
  const at::Tensor query = at::zeros({2, 2, 3, 16}, packed.options()).transpose(1, 2);
  const at::Tensor key = query.narrow(2, 0, 1);
  CHECK_THAT(error_of([&] { own::rotate_back(packed, query, key, key, angles, angles); }),
             SAYS_THAT_THERE_IS_NO_GPU);
  CHECK_THAT(error_of([&] { own::rotate(packed, 2, angles.narrow(0, 0, 2), angles); }),
             Contains("cosines of [2, 1, 8]"));
  const at::Tensor apart = at::zeros({2, 3, 2, 32}, packed.options()).slice(3, 0, 32, 2);
  CHECK_THAT(error_of([&] { own::rotate_back(packed, apart, key, key, angles, angles); }),
             Contains("should be contiguous"));
}

TEST_CASE("Adam's kernel reaches its launch with every mix of bf16 and fp32", "[adam]") {
  if (c10::cuda::device_count() > 0) return;  // the tensors lie in host memory
  const auto parameters_dtype = GENERATE(at::kFloat, at::kBFloat16);
  const auto state_dtype = GENERATE(at::kFloat, at::kBFloat16);
  const bool has_kernel = has_adam_kernel(parameters_dtype, state_dtype, at::kCUDA);
  CHECK(has_kernel == (parameters_dtype == at::kBFloat16 || state_dtype == at::kBFloat16));
  if (!has_kernel) return;
  const at::Tensor parameters = at::zeros({1000}, parameters_dtype);
  const at::Tensor moment = at::zeros({1000}, state_dtype);
  CHECK_THAT(error_of([&] {
               step_adam_in_one_kernel(parameters, parameters.clone(), moment, moment.clone(),
                                       AdamSettings{}, AdamRounding{},
                                       AdamScalars{.step = at::ones({})});
             }),
             SAYS_THAT_THERE_IS_NO_GPU);
}

TEST_CASE("Adam's kernel for quantized state reaches its launch", "[adam]") {
  if (c10::cuda::device_count() > 0) return;
  const auto dtype = GENERATE(at::kFloat, at::kBFloat16);
  CHECK(has_adam_kernel(dtype, at::kByte, at::kCUDA));
  const at::Tensor parameters = at::zeros({1024}, dtype);
  const QuantizedState moment{at::zeros({1024}, at::kByte), at::zeros({4}), /*is_signed=*/true};
  CHECK_THAT(error_of([&] {
               step_quantized_adam_in_one_kernel(parameters, parameters.clone(), moment, moment,
                                                 AdamSettings{}, AdamRounding{},
                                                 AdamScalars{.step = at::ones({})});
             }),
             SAYS_THAT_THERE_IS_NO_GPU);
}

}  // namespace fsdp::own_kernels_test
