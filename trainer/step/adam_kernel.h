#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "trainer/step/adam.h"

namespace fsdp {

// Tensors of `size` elements on the current device. Parameters and gradient have the same type.
// This type and the state's type are bfloat16 or fp32.
struct AdamTensors {
  void* parameters;
  const void* gradient;
  void* first_moment;
  void* second_moment;
  bool has_bfloat16_parameters;
  bool has_bfloat16_state;
  int64_t size;
};

// The data of a QuantizedState.
struct QuantizedMoment {
  uint8_t* codes;
  float* absmax;
};

// As AdamTensors, with quantized moments. `size` is a multiple of kStateBlock, and all tensors
// begin at a multiple of 16 bytes.
struct QuantizedAdamTensors {
  void* parameters;
  const void* gradient;
  QuantizedMoment first_moment;
  QuantizedMoment second_moment;
  bool has_bfloat16_parameters;
  int64_t size;
};

// Numbers in the device's memory.
struct AdamNumbers {
  const float* step;
  const float* divisor;  // of the gradient; null: 1
  const float* skip;     // 1: nothing is stepped; null: 0
};

// Start one kernel on `stream`, which reads and writes every element once. The inputs stay alive
// until the kernel has ended. Return the error of the launch.
cudaError_t start_adam(const AdamTensors& tensors, const AdamSettings& settings,
                       const AdamRounding& rounding, const AdamNumbers& numbers,
                       cudaStream_t stream);
cudaError_t start_quantized_adam(const QuantizedAdamTensors& tensors, const AdamSettings& settings,
                                 const AdamRounding& rounding, const AdamNumbers& numbers,
                                 cudaStream_t stream);

}  // namespace fsdp
