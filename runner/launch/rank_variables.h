#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace fsdp {

// The ranks of one launch on one host.
struct RankPlace {
  size_t ranks = 1;
  int port = 0;              // where they meet
  std::string visible_gpus;  // indices, separated by commas; rank r uses the r-th
};

// The variables that a rank's environment has beside the user's own: those of torchrun, and the
// GPUs.
std::map<std::string, std::string> rank_variables(const RankPlace& place, size_t rank);

}  // namespace fsdp
