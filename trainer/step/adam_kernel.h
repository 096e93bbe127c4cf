#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "trainer/step/adam.h"

namespace fsdp {

// Tensors of `size` elements on the current device. Parameters and gradient have one type. Each of
// the parameters and the state is bfloat16 or fp32.
struct AdamTensors {
  void* parameters;
  const void* gradient;
  void* first_moment;
  void* second_moment;
  bool has_bfloat16_parameters;
  bool has_bfloat16_state;
  int64_t size;
};

// A QuantizedState.
struct QuantizedMoment {
  uint8_t* codes;
  float* absmax;
};

// As AdamTensors. `size` is a multiple of kStateBlock, and all begin at a multiple of 16 bytes.
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

// These start one kernel that reads and writes every element once. Its inputs stay alive until the
// kernel on `stream` has ended. They return the result of the start.
cudaError_t start_adam(const AdamTensors& tensors, const AdamSettings& settings,
                       const AdamRounding& rounding, const AdamNumbers& numbers,
                       cudaStream_t stream);
cudaError_t start_quantized_adam(const QuantizedAdamTensors& tensors, const AdamSettings& settings,
                                 const AdamRounding& rounding, const AdamNumbers& numbers,
                                 cudaStream_t stream);

}  // namespace fsdp
