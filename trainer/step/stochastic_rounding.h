#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "trainer/model/splitmix64.h"

// Stochastic rounding (Gupta et al. 2015) of fp32 to bfloat16: up or down at random, the nearer
// neighbour with the larger probability, so that the mean over many roundings is the value itself.
//
// Random numbers are a function of what they are for, so that they are the same however the
// elements are spread over ranks, threads and devices, and in a run that goes on from a checkpoint.
namespace fsdp {

// Whose random numbers those of one parameter are, in a run of `seed`; the steps' are made of it.
uint64_t random_key(int64_t seed, std::string_view parameter);

// The random numbers of consecutive elements of one parameter in one step: 64 bits for each.
struct Draws {
  uint64_t parameter_key = 0;
  int64_t step = 0;
  int64_t first_element = 0;  // of the parameter

  // Element i of the parameter draws splitmix64(key(), i).
  uint64_t key() const { return splitmix::mixed(parameter_key + static_cast<uint64_t>(step)); }
};

// to[k] = from[k], rounded by bits 16 k to 16 k + 15 of each element's draw; of bfloat16 and fp32,
// up to four of each, on the CPU, 1-dimensional, contiguous and of one size. A `to` of fp32 is left
// as it is. What bfloat16 holds, infinities and NaN among it, stays.
void round_stochastically(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from,
                          const Draws& draws);

// The same bits by tensor operations alone, on any device; on the CPU it takes several times as
// long.
void round_stochastically_by_operations(const std::vector<at::Tensor>& to,
                                        const std::vector<at::Tensor>& from, const Draws& draws);

}  // namespace fsdp
