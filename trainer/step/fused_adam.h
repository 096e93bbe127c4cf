#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "trainer/step/adam.h"
#include "trainer/step/quantized_state.h"

namespace fsdp {

// True if a function below takes parameters and state of these dtypes (uint8: QuantizedState) on
// `device`, or on meta in plans for it.
bool has_adam_kernel(at::ScalarType parameters, at::ScalarType state, c10::DeviceType device);

// 0-dimensional fp32 tensors on the parameters' device.
struct AdamScalars {
  at::Tensor step;
  std::optional<at::Tensor> divisor{};  // of the gradient
  std::optional<at::Tensor> skip{};     // 1: nothing is stepped
};

// Steps contiguous tensors of one size in place on the current stream, with the same bits as
// Optimizer on the CPU. Reads and writes each element once. Neither changes the gradient nor
// allocates.
void step_adam_in_one_kernel(const at::Tensor& parameters, const at::Tensor& gradient,
                             const at::Tensor& first_moment, const at::Tensor& second_moment,
                             const AdamSettings& settings, const AdamRounding& rounding,
                             const AdamScalars& scalars);

// Does the same with quantized moments. The parameters begin with the first element of a block.
void step_quantized_adam_in_one_kernel(const at::Tensor& parameters, const at::Tensor& gradient,
                                       const QuantizedState& first_moment,
                                       const QuantizedState& second_moment,
                                       const AdamSettings& settings, const AdamRounding& rounding,
                                       const AdamScalars& scalars);

}  // namespace fsdp
