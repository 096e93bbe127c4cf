#include "trainer/kernels/fast_cuda_kernels.h"

// What make_kernels looks for in the library that it loads. The caller owns the kernels.
extern "C" fsdp::Kernels* fsdp_make_transformer_engine_kernels(int capability_major) {
  return new fsdp::FastCudaKernels(capability_major);
}
