#include <ATen/ATen.h>
#include <c10/cuda/CUDAFunctions.h>

#include <catch2/catch.hpp>

#include "tests/trainer/kernels/without_gpu.h"
#include "trainer/step/fused_adam.h"

namespace fsdp {

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

}  // namespace fsdp
