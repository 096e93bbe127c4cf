#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "trainer/step/adam.h"

namespace fsdp {

// Tensors of `size` elements on the current device. Parameters and gradient have one type. Each of
// the parameters and the state is bfloat16 or fp32; at least one is bfloat16.
struct AdamTensors {
  void* parameters;
  const void* gradient;
  void* first_moment;
  void* second_moment;
  bool has_bfloat16_parameters;
  bool has_bfloat16_state;
  int64_t size;
};

// Numbers in the device's memory.
struct AdamNumbers {
  const float* step;
  const float* divisor;  // of the gradient; null: 1
  const float* skip;     // 1: nothing is stepped; null: 0
};

// Starts one kernel that reads and writes every element once. Its inputs stay alive until the
// kernel on `stream` has ended. Returns the result of the start.
cudaError_t start_adam(const AdamTensors& tensors, const AdamSettings& settings,
                       const AdamRounding& rounding, const AdamNumbers& numbers,
                       cudaStream_t stream);

}  // namespace fsdp
