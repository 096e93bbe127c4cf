#include <c10/cuda/CUDAFunctions.h>

#include <catch2/catch.hpp>

#include "tests/trainer/kernels/without_gpu.h"
#include "trainer/step/optimizer.h"

namespace fsdp {

TEST_CASE("a step of bfloat16 that rounds at random reaches its launch", "[adam]") {
  if (c10::cuda::device_count() > 0) return;  // the tensors lie in host memory
  const auto parameters_dtype = GENERATE(at::kFloat, at::kBFloat16);
  OptimizerSpec spec;
  spec.rounding = Rounding::kStochastic;
  spec.state_dtype = parameters_dtype == at::kFloat ? Dtype::kBf16 : Dtype::kFp32;
  const at::Tensor parameters = at::zeros({1000}, parameters_dtype);
  Optimizer optimizer(spec, {{parameters, {FlatPart{.parameter = "weight"}}}}, /*seed=*/1,
                      at::kCUDA);
  CHECK_THAT(error_of([&] { optimizer.step(0, 1, parameters, parameters.clone(), 0.1); }),
             SAYS_THAT_THERE_IS_NO_GPU);
}

}  // namespace fsdp
