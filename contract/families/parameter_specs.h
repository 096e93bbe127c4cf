#pragma once

#include <string>
#include <utility>
#include <vector>

#include "contract/families/module_spec.h"

// The kinds of parameters that families have in common.
namespace fsdp {

inline ParameterSpec weight_spec(std::string name, std::vector<NamedTensor> tensors,
                                 double standard_deviation) {
  return {.name = std::move(name),
          .tensors = std::move(tensors),
          .standard_deviation = standard_deviation};
}

// The weight [width] of a norm.
inline ParameterSpec norm_spec(std::string name, std::string tensor, int64_t width) {
  return {.name = std::move(name),
          .tensors = {{std::move(tensor), {width}}},
          .initialization = Initialization::kOnes,
          .role = ParameterRole::kNorm};
}

}  // namespace fsdp
