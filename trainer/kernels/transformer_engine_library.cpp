// The entry of the library that is loaded for Transformer Engine.
#include "trainer/kernels/transformer_engine_kernels.h"

// The function that make_kernels looks for in the loaded library. The caller owns the kernels.
extern "C" fsdp::Kernels* fsdp_make_transformer_engine_kernels(int capability_major) {
  return new fsdp::TransformerEngineKernels(capability_major);
}
