#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "trainer/kernels/float_type.h"

namespace fsdp {

// Starts one kernel that dequantizes `numel` values of NF4 (nf4_layout.h) to `out`. `bytes` begin
// at a multiple of 8. Both are on the current device, and stay alive until the kernel on `stream`
// has ended. Returns the result of the start.
cudaError_t start_dequantize_nf4(const uint8_t* bytes, int64_t numel, void* out, FloatType type,
                                 cudaStream_t stream);

}  // namespace fsdp
