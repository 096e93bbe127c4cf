#pragma once

#include <ATen/ATen.h>

// Replacements for some of libtorch's operators, made of operators that meta tensors have too. The
// allocator sees all their memory.
namespace fsdp {

// Does the same as at::isfinite.
inline at::Tensor is_finite(const at::Tensor& x) { return x.sub(x).eq(0); }

// Returns `count` numbers from `first` on. at::arange's own result would escape the meta allocator.
inline at::Tensor counted(int64_t first, int64_t count, const at::TensorOptions& options) {
  at::Tensor numbers = at::empty({count}, options);
  return at::arange_out(numbers, first, first + count, /*step=*/1);
}

}  // namespace fsdp
