#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/checkpoint/trainer_state.h"

namespace fsdp {

// Where libtorch's generators stand that a rank on `device` draws from (dropout).
GeneratorState generator_state(at::Device device);

// Puts them there; one that the state lacks stays as it is. Returns false where one is no state of
// this libtorch's generators, which then stays too.
bool set_generator_state(const GeneratorState& state, at::Device device);

}  // namespace fsdp
