#pragma once

#include <cstdint>

// The settings of one Adam or AdamW step in a single kernel.
namespace fsdp {

struct AdamSettings {
  double learning_rate;
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay;
  bool is_decay_decoupled;  // AdamW
};

// The rounding of values written as bfloat16: to nearest, or at random with a parameter's draws in
// a step (stochastic_rounding.h).
struct AdamRounding {
  bool is_random;
  uint64_t key;
  uint64_t first_element;
};

}  // namespace fsdp
