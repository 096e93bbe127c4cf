#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace fsdp {

// The ranks of one launch on one host.
struct RankPlace {
  size_t ranks = 1;
  int port = 0;              // where they meet
  std::string visible_gpus;  // indices, separated by commas; rank r uses the r-th
};

// Whether `name` is a variable by which a launcher (torchrun, mpirun, mpiexec) tells a process
// which rank it is and where ranks meet. What this process was told is not meant for its ranks.
bool is_of_a_launcher(std::string_view name);

// The variables that a rank's environment has beside the user's own: those of torchrun, and the
// GPUs.
std::map<std::string, std::string> rank_variables(const RankPlace& place, size_t rank);

}  // namespace fsdp
