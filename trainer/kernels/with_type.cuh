#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "trainer/kernels/float_type.h"

namespace fsdp {

// Calls `start`, which starts a kernel, with a null pointer to the C++ type of `type`. Returns its
// result.
template <typename Start>
cudaError_t with_type(FloatType type, Start&& start) {
  switch (type) {
    case FloatType::kFloat32:
      start(static_cast<float*>(nullptr));
      break;
    case FloatType::kFloat16:
      start(static_cast<__half*>(nullptr));
      break;
    case FloatType::kBFloat16:
      start(static_cast<__nv_bfloat16*>(nullptr));
      break;
  }
  return cudaGetLastError();
}

}  // namespace fsdp
