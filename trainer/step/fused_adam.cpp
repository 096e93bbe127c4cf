#include "trainer/step/fused_adam.h"

#ifdef FSDP_CUDA_KERNELS
#include <c10/cuda/CUDAException.h>

#include "trainer/kernels/cuda_stream.h"
#include "trainer/step/adam_kernel.h"
#endif

#include "trainer/kernels/launch.h"

namespace fsdp {
namespace {

#if defined(FSDP_CUDA) && !defined(FSDP_CUDA_KERNELS)
constexpr bool kIsBuilt = false;
#else
constexpr bool kIsBuilt = true;
#endif

}  // namespace

bool has_adam_kernel(at::ScalarType parameters, at::ScalarType state, c10::DeviceType device) {
  const auto is_taken = [](at::ScalarType dtype) {
    return dtype == at::kFloat || dtype == at::kBFloat16;
  };
  const bool has_bfloat16 = parameters == at::kBFloat16 || state == at::kBFloat16;
  return kIsBuilt && device == at::kCUDA && is_taken(parameters) && is_taken(state) && has_bfloat16;
}

void step_adam_in_one_kernel(const at::Tensor& parameters, const at::Tensor& gradient,
                             const at::Tensor& first_moment, const at::Tensor& second_moment,
                             [[maybe_unused]] const AdamSettings& settings,
                             [[maybe_unused]] const AdamRounding& rounding,
                             [[maybe_unused]] const AdamScalars& scalars) {
  launch("adam", {parameters, gradient, first_moment, second_moment},
         {parameters, first_moment, second_moment}, [&] {
#ifdef FSDP_CUDA_KERNELS
           const auto number = [](const std::optional<at::Tensor>& scalar) {
             return scalar ? scalar->const_data_ptr<float>() : nullptr;
           };
           C10_CUDA_CHECK(
               start_adam({.parameters = parameters.mutable_data_ptr(),
                           .gradient = gradient.const_data_ptr(),
                           .first_moment = first_moment.mutable_data_ptr(),
                           .second_moment = second_moment.mutable_data_ptr(),
                           .has_bfloat16_parameters = parameters.scalar_type() == at::kBFloat16,
                           .has_bfloat16_state = first_moment.scalar_type() == at::kBFloat16,
                           .size = parameters.numel()},
                          settings, rounding,
                          {.step = scalars.step.const_data_ptr<float>(),
                           .divisor = number(scalars.divisor),
                           .skip = number(scalars.skip)},
                          stream_of(parameters)));
#else
           TORCH_CHECK(false, "Adam's kernel is only planned for by this program");
#endif
         });
}

}  // namespace fsdp
