#pragma once

#include <ATen/core/Tensor.h>

namespace fsdp {

// Returns zeros, as at::zeros does. On the CPU, the kernel provides the pages of a large tensor
// when they are first written. Until then the tensor occupies no memory.
at::Tensor zeros_on_demand(at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace fsdp
