#pragma once

#include <memory>

#include "trainer/kernels/kernels.h"

namespace fsdp {

// The fastest kernels for GPUs, and for plans on meta of one, that this build has: Transformer
// Engine's where its wheel was there, our own where nvcc was, and ATen's.
std::unique_ptr<Kernels> make_gpu_kernels();

}  // namespace fsdp
