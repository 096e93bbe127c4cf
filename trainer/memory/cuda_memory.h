#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "trainer/memory/memory_probe.h"

// A GPU's memory, and host memory for it; only in a CUDA build.
namespace fsdp {

std::unique_ptr<MemoryProbe> make_cuda_memory_probe(c10::Device device);

// Returns host memory [numel] in whole pages that are registered with CUDA. libtorch's pinned
// memory would take the next power of two.
at::Tensor empty_registered(int64_t numel, at::ScalarType dtype);

}  // namespace fsdp
