#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "trainer/step/adam.h"

namespace fsdp {

// True if step_adam_in_one_kernel() takes parameters and state of these dtypes on a kind of device,
// or on meta for plans of it. A program for CUDA that was built without nvcc has no such kernel;
// one for the CPU alone plans for a program that has it.
bool has_adam_kernel(at::ScalarType parameters, at::ScalarType state, c10::DeviceType device);

// 0-dimensional, fp32, on the parameters' device.
struct AdamScalars {
  at::Tensor step;
  std::optional<at::Tensor> divisor{};  // of the gradient
  std::optional<at::Tensor> skip{};     // where it is 1, nothing is stepped
};

// Steps contiguous tensors of one size in place, on the current stream, as Optimizer does on the
// CPU, to the bit. Reads and writes each element once, leaves the gradient as it is and allocates
// nothing.
void step_adam_in_one_kernel(const at::Tensor& parameters, const at::Tensor& gradient,
                             const at::Tensor& first_moment, const at::Tensor& second_moment,
                             const AdamSettings& settings, const AdamRounding& rounding,
                             const AdamScalars& scalars);

}  // namespace fsdp
