#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "trainer/kernels/float_type.h"

namespace fsdp {

// Computes h = silu(gate) * up on a GPU in one kernel. `h` is [rows, width], the rest is as below.
cudaError_t start_swiglu(void* h, const void* gate_up, FloatType type, int64_t rows, int64_t width,
                         cudaStream_t stream);

// Computes the gradient of h = silu(gate) * up on a GPU, and h once more, in one kernel. `dh`
// [rows, width] becomes h. `gate_up` and `d_gate_up` [rows, 2 * width] have the gate first. All are
// contiguous, on the current device, and stay alive until the kernel on `stream` has ended. Returns
// the result of starting the kernel.
cudaError_t start_swiglu_backward(void* dh, const void* gate_up, void* d_gate_up, FloatType type,
                                  int64_t rows, int64_t width, cudaStream_t stream);

}  // namespace fsdp
