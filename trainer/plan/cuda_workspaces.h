#pragma once

#include <cstdint>

#include "trainer/comm/environment.h"

namespace fsdp {

// The memory that libtorch 2.11 takes from its GPU allocator beside tensors and never gives back
// (aten/src/ATen/cuda/CublasHandlePool.cpp).
struct CudaWorkspaces {
  // Taken on the current stream at each thread's and stream's first matrix product (mm, addmm,
  // bmm). A trainer takes it once, before its first tensor: the training thread does so on the
  // `compute` stream (make_backend).
  int64_t cublas_bytes = 0;
  // Taken in the same way at the first product that uses cuBLASLt (one with a bias vector); 0 if
  // both libraries share one workspace.
  int64_t cublaslt_bytes = 0;

  bool operator==(const CudaWorkspaces&) const = default;
};

// `capability` is 90 for a GPU of compute capability 9.0. CUBLAS_WORKSPACE_CONFIG,
// CUBLASLT_WORKSPACE_SIZE and TORCH_CUBLASLT_UNIFIED_WORKSPACE are read as libtorch reads them.
CudaWorkspaces cuda_workspaces(int capability, const EnvironmentLookup& lookup);

}  // namespace fsdp
