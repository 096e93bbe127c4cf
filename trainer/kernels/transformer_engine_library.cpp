#include "trainer/kernels/transformer_engine_kernels.h"
#ifdef FSDP_CUDA_KERNELS
#include "trainer/kernels/cross_entropy_kernels.h"
#endif

// What make_kernels looks for in the library that it loads. The caller owns the kernels.
extern "C" fsdp::Kernels* fsdp_make_transformer_engine_kernels() {
#ifdef FSDP_CUDA_KERNELS
  return new fsdp::CrossEntropyKernels<fsdp::TransformerEngineKernels>();
#else
  return new fsdp::TransformerEngineKernels();
#endif
}
