#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "trainer/kernels/float_type.h"

namespace fsdp {

// nullopt for types that our own CUDA kernels do not take.
inline std::optional<FloatType> float_type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return FloatType::kFloat32;
    case at::kHalf:
      return FloatType::kFloat16;
    case at::kBFloat16:
      return FloatType::kBFloat16;
    default:
      return std::nullopt;
  }
}

}  // namespace fsdp
