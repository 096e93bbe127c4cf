#pragma once

#include <cstdint>

#include "trainer/comm/environment.h"

namespace fsdp {

// The memory that libtorch 2.11 takes from its GPU allocator beside tensors and never gives back
// (aten/src/ATen/cuda/CublasHandlePool.cpp).
struct CudaWorkspaces {
  // Each thread takes it once per stream, at its first matrix product there (mm, addmm, bmm). In a
  // trainer only the training thread takes it: on the compute stream, before the first tensor
  // (make_backend).
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
