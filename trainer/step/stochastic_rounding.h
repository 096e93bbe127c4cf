#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "trainer/model/splitmix64.h"

// Stochastic rounding (Gupta et al. 2015) of fp32 to bfloat16: up or down at random, to the nearer
// neighbour with the larger probability. The mean over many roundings is the value itself.
//
// Random numbers depend only on the seed, the parameter, the element and the step. They do not
// change with ranks, threads or devices, or if a run resumes from a checkpoint.
namespace fsdp {

// Returns the key of a parameter's random numbers in a run of `seed`, for Draws::parameter_key.
uint64_t random_key(int64_t seed, std::string_view parameter);

// The random numbers of consecutive elements of one parameter in one step: 64 bits for each.
struct Draws {
  uint64_t parameter_key = 0;
  int64_t step = 0;
  int64_t first_element = 0;  // of the parameter

  // Element i of the parameter draws splitmix64(key(), i).
  uint64_t key() const { return splitmix::mixed(parameter_key + static_cast<uint64_t>(step)); }
};

// Rounds from[k] to to[k] by bits 16 k to 16 k + 15 of each element's draw. `from` is fp32 and `to`
// is bfloat16; there are up to four of each. All are on the CPU, 1-dimensional, contiguous and of
// one size. A `to` of fp32 is left unchanged. Values that are exact in bfloat16, infinities and NaN
// stay as they are.
void round_stochastically(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from,
                          const Draws& draws);

// Gives the same bits by tensor operations, on any device; several times slower on the CPU.
void round_stochastically_by_operations(const std::vector<at::Tensor>& to,
                                        const std::vector<at::Tensor>& from, const Draws& draws);

}  // namespace fsdp
