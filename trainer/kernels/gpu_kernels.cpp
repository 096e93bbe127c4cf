#include "trainer/kernels/gpu_kernels.h"

#include "trainer/kernels/aten_kernels.h"
#ifdef FSDP_TRANSFORMER_ENGINE
#include "trainer/kernels/transformer_engine_kernels.h"
#endif
#ifdef FSDP_CUDA_KERNELS
#include "trainer/kernels/cross_entropy_kernels.h"
#endif

namespace fsdp {
namespace {

#ifdef FSDP_TRANSFORMER_ENGINE
using LayerKernels = TransformerEngineKernels;
#else
using LayerKernels = AtenKernels;
#endif

#ifdef FSDP_CUDA_KERNELS
using GpuKernels = CrossEntropyKernels<LayerKernels>;
#else
using GpuKernels = LayerKernels;
#endif

}  // namespace

std::unique_ptr<Kernels> make_gpu_kernels() { return std::make_unique<GpuKernels>(); }

}  // namespace fsdp
