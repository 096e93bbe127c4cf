#pragma once

#include <catch2/catch.hpp>

#include "trainer/step/optimizer.h"

// Optimizers of one unit, and the inputs of their steps.
namespace fsdp {

inline constexpr int64_t kSeed = 3;
inline constexpr int64_t kSize = 300'001;  // more than one block on the CPU, and an odd rest

inline OptimizerSpec spec_of(OptimizerKind kind) {
  OptimizerSpec spec;
  spec.kind = kind;
  spec.weight_decay = 0.1;
  spec.epsilon = 1e-3;
  if (kind == OptimizerKind::kSgd) spec.momentum = 0.9;
  return spec;
}

inline OptimizerSpec any_spec() {
  return spec_of(GENERATE(OptimizerKind::kAdamW, OptimizerKind::kAdam, OptimizerKind::kSgd,
                          OptimizerKind::kAdadelta));
}

inline double rate_of_step(int step) { return 0.02 / step; }

inline at::Tensor values(int64_t size, double phase, at::ScalarType dtype) {
  return (at::arange(size, at::kDouble) * 0.37 + phase).sin().to(dtype);
}

inline FlatUnit unit_of(const at::Tensor& parameters) {
  return {parameters, {FlatPart{.parameter = "weight"}}};
}

// An optimizer and the parameters of its only unit.
struct Stepped {
  Stepped(const OptimizerSpec& spec, at::Tensor initial)
      : parameters(std::move(initial)), optimizer(spec, {unit_of(parameters)}, kSeed, at::kCPU) {}
  Stepped(const OptimizerSpec& spec, at::ScalarType dtype)
      : Stepped(spec, values(kSize, 0.5, dtype)) {}

  void step(int number, const at::Tensor& found_non_finite = {}) {
    optimizer.step(0, number, parameters, values(kSize, number, parameters.scalar_type()),
                   rate_of_step(number), {.found_non_finite = found_non_finite});
  }

  at::Tensor state(size_t i) const { return optimizer.state(0).at(i).second; }

  bool equals(const Stepped& other) const {
    bool equal = parameters.equal(other.parameters) && optimizer.steps() == other.optimizer.steps();
    for (size_t i = 0; i < optimizer.state(0).size(); ++i) {
      equal = equal && state(i).equal(other.state(i));
    }
    return equal;
  }

  at::Tensor parameters;
  Optimizer optimizer;
};

inline void round_to(const at::Tensor& tensor, at::ScalarType dtype) {
  tensor.copy_(tensor.to(dtype));
}

}  // namespace fsdp
