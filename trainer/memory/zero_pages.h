#pragma once

#include <ATen/core/Tensor.h>

namespace fsdp {

// Zeros, as at::zeros. On the CPU the pages of a large one are left to the kernel, which gives them
// when they are first written: until then the tensor occupies no memory.
at::Tensor zeros_on_demand(at::IntArrayRef sizes, const at::TensorOptions& options);

}  // namespace fsdp
