#pragma once

// Marks functions and constants that are compiled for the GPU and for the host.
#ifdef __CUDACC__
#define FSDP_HOST_DEVICE __host__ __device__ __forceinline__
#define FSDP_DEVICE_CONSTANT __device__
#else
#define FSDP_HOST_DEVICE inline
#define FSDP_DEVICE_CONSTANT inline
#endif

namespace fsdp {

// Returns a * b, rounded before anything is added to it. On a host the file that calls it must be
// compiled with -ffp-contract=off.
FSDP_HOST_DEVICE float rounded_product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

}  // namespace fsdp
