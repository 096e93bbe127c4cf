#pragma once

#include <cstdint>

// What a step of Adam or AdamW in one kernel is made of.
namespace fsdp {

struct AdamSettings {
  double learning_rate;
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay;
  bool is_decay_decoupled;  // AdamW
};

// How bfloat16 is written: to nearest, or at random with the draws of a parameter in a step
// (stochastic_rounding.h).
struct AdamRounding {
  bool is_random;
  uint64_t key;
  uint64_t first_element;
};

}  // namespace fsdp
