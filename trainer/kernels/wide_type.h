#pragma once

#include <ATen/core/Tensor.h>

namespace fsdp {

// Returns the type of sums over x: fp64 for fp64, else fp32.
inline at::ScalarType wide_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace fsdp
