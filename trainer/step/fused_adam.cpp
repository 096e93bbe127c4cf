// Calls our CUDA kernels for Adam. A program without them only plans for them.
#include "trainer/step/fused_adam.h"

#ifdef FSDP_CUDA_KERNELS
#include <c10/cuda/CUDAException.h>

#include "trainer/kernels/cuda_stream.h"
#include "trainer/step/adam_kernel.h"
#endif

#include "trainer/kernels/kernels.h"
#include "trainer/kernels/launch.h"

namespace fsdp {
namespace {

#ifdef FSDP_CUDA_KERNELS
AdamNumbers numbers_of(const AdamScalars& scalars) {
  const auto number = [](const std::optional<at::Tensor>& scalar) {
    return scalar ? scalar->const_data_ptr<float>() : nullptr;
  };
  return {.step = scalars.step.const_data_ptr<float>(),
          .divisor = number(scalars.divisor),
          .skip = number(scalars.skip)};
}

QuantizedMoment pointers_of(const QuantizedState& moment) {
  return {moment.codes.mutable_data_ptr<uint8_t>(), moment.absmax.mutable_data_ptr<float>()};
}
#endif

}  // namespace

bool has_adam_kernel(at::ScalarType parameters, at::ScalarType state, c10::DeviceType device) {
  const auto is_taken = [](at::ScalarType dtype) {
    return dtype == at::kFloat || dtype == at::kBFloat16;
  };
  const bool is_mixed = parameters == at::kBFloat16 || state == at::kBFloat16;
  return kHasCudaKernels && device == at::kCUDA && is_taken(parameters) &&
         (state == at::kByte || (is_taken(state) && is_mixed));
}

void step_adam_in_one_kernel(const at::Tensor& parameters, const at::Tensor& gradient,
                             const at::Tensor& first_moment, const at::Tensor& second_moment,
                             [[maybe_unused]] const AdamSettings& settings,
                             [[maybe_unused]] const AdamRounding& rounding,
                             [[maybe_unused]] const AdamScalars& scalars) {
  launch("adam", {parameters, gradient, first_moment, second_moment},
         {parameters, first_moment, second_moment}, [&] {
#ifdef FSDP_CUDA_KERNELS
           C10_CUDA_CHECK(
               start_adam({.parameters = parameters.mutable_data_ptr(),
                           .gradient = gradient.const_data_ptr(),
                           .first_moment = first_moment.mutable_data_ptr(),
                           .second_moment = second_moment.mutable_data_ptr(),
                           .has_bfloat16_parameters = parameters.scalar_type() == at::kBFloat16,
                           .has_bfloat16_state = first_moment.scalar_type() == at::kBFloat16,
                           .size = parameters.numel()},
                          settings, rounding, numbers_of(scalars), stream_of(parameters)));
#else
           TORCH_CHECK(false, "Adam's kernel is only planned for by this program");
#endif
         });
}

void step_quantized_adam_in_one_kernel(const at::Tensor& parameters, const at::Tensor& gradient,
                                       const QuantizedState& first_moment,
                                       const QuantizedState& second_moment,
                                       [[maybe_unused]] const AdamSettings& settings,
                                       [[maybe_unused]] const AdamRounding& rounding,
                                       [[maybe_unused]] const AdamScalars& scalars) {
  const Tensors state{first_moment.codes, first_moment.absmax, second_moment.codes,
                      second_moment.absmax};
  Tensors written{parameters};
  written.insert(written.end(), state.begin(), state.end());
  Tensors read = written;
  read.push_back(gradient);
  launch("quantized_adam", read, written, [&] {
#ifdef FSDP_CUDA_KERNELS
    C10_CUDA_CHECK(
        start_quantized_adam({.parameters = parameters.mutable_data_ptr(),
                              .gradient = gradient.const_data_ptr(),
                              .first_moment = pointers_of(first_moment),
                              .second_moment = pointers_of(second_moment),
                              .has_bfloat16_parameters = parameters.scalar_type() == at::kBFloat16,
                              .size = parameters.numel()},
                             settings, rounding, numbers_of(scalars), stream_of(parameters)));
#else
    TORCH_CHECK(false, "Adam's kernel is only planned for by this program");
#endif
  });
}

}  // namespace fsdp
