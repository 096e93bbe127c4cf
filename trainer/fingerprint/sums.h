#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

// Sums over tensors for fingerprints (contract/record/fingerprint.h says how they are formed).
namespace fsdp {

// Returns [2 + kProjections], fp64, on the tensor's device: the sum, the sum of squares and the
// projections. `part` is contiguous, of any dtype, and begins at element `begin` of its tensor. A
// GPU takes up to 40 MiB for it.
at::Tensor sums_of(const at::Tensor& part, int64_t begin);

// Returns the same of a row [tokens, width].
at::Tensor sums_of_row(const at::Tensor& row_TD);

// Does the same as sums_of() with libtorch's operations, as on a GPU. `part` is flat.
at::Tensor sums_by_operations(const at::Tensor& part, int64_t begin);

}  // namespace fsdp
