#pragma once

#include "trainer/kernels/transformer_engine_kernels.h"
#ifdef FSDP_CUDA_KERNELS
#include "trainer/kernels/cross_entropy_kernels.h"
#include "trainer/kernels/swiglu_kernels.h"
#endif

namespace fsdp {

// Transformer Engine's kernels, our own if the build had nvcc, and ATen's for the rest.
#ifdef FSDP_CUDA_KERNELS
using FastCudaKernels = CrossEntropyKernels<SwigluKernels<TransformerEngineKernels>>;
#else
using FastCudaKernels = TransformerEngineKernels;
#endif

}  // namespace fsdp
