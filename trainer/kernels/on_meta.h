#pragma once

#include <ATen/ATen.h>

// What some of libtorch's operators do, by others that meta tensors have too, with memory that
// their allocator sees.
namespace fsdp {

// As at::isfinite.
inline at::Tensor is_finite(const at::Tensor& x) { return x.sub(x).eq(0); }

// first, first + 1, ...: `count` of them. at::arange alone would grow its result, which on meta no
// allocator sees.
inline at::Tensor counted(int64_t first, int64_t count, const at::TensorOptions& options) {
  at::Tensor numbers = at::empty({count}, options);
  return at::arange_out(numbers, first, first + count, /*step=*/1);
}

}  // namespace fsdp
