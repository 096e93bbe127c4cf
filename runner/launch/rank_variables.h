#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace fsdp {

// The ranks of one launch on one host.
struct RankPlace {
  size_t ranks = 1;
  int port = 0;              // where the ranks meet
  std::string visible_gpus;  // indices, separated by commas; rank r uses the r-th
};

// True if a launcher (torchrun, mpirun, mpiexec) uses the variable to tell a process its rank and
// where ranks meet. This process must not pass its own on to its ranks.
bool is_of_a_launcher(std::string_view name);

// Returns the variables that a rank gets beside the user's own: torchrun's, and the GPUs.
std::map<std::string, std::string> rank_variables(const RankPlace& place, size_t rank);

}  // namespace fsdp
