#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "trainer/step/adam.h"

namespace fsdp {

// Tensors of `size` elements on the current device. Parameters and gradient have one type. The
// parameters, the state or both are bfloat16; what is not is fp32.
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

// One kernel, which reads and writes every element once. What it reads stays alive until the kernel
// on `stream` has ended. Returns what starting it returned.
cudaError_t start_adam(const AdamTensors& tensors, const AdamSettings& settings,
                       const AdamRounding& rounding, const AdamNumbers& numbers,
                       cudaStream_t stream);

}  // namespace fsdp
