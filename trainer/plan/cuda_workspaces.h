#pragma once

#include <cstdint>

#include "trainer/comm/environment.h"

namespace fsdp {

// What libtorch 2.11 takes from its allocator of GPU memory beside tensors, and never gives back
// (aten/src/ATen/cuda/CublasHandlePool.cpp).
struct CudaWorkspaces {
  // Taken on the current stream at the first matrix product (mm, addmm, bmm) of each thread and
  // stream: in a trainer once, before its first tensor, on its `compute` stream by the thread that
  // trains (make_backend).
  int64_t cublas_bytes = 0;
  // Taken likewise at the first product that goes to cuBLASLt (one with a vector as its bias);
  // 0 where it shares the other's.
  int64_t cublaslt_bytes = 0;

  bool operator==(const CudaWorkspaces&) const = default;
};

// `capability` is 90 for a GPU of compute capability 9.0. The environment's
// CUBLAS_WORKSPACE_CONFIG, CUBLASLT_WORKSPACE_SIZE and TORCH_CUBLASLT_UNIFIED_WORKSPACE count as
// libtorch reads them.
CudaWorkspaces cuda_workspaces(int capability, const EnvironmentLookup& lookup);

}  // namespace fsdp
