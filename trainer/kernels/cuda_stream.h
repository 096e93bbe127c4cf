#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

namespace fsdp {

// Returns the current stream of the tensor's GPU; the default stream for a tensor in host memory.
inline cudaStream_t stream_of(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return nullptr;
  return c10::cuda::getCurrentCUDAStream(tensor.device().index()).stream();
}

}  // namespace fsdp
