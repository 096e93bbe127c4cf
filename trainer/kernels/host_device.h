#pragma once

// Marks functions that are compiled for the GPU and, for their tests, for the host.
#ifdef __CUDACC__
#define FSDP_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define FSDP_HOST_DEVICE inline
#endif
