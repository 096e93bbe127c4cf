#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "runner/experiment/experiment.h"

// What a cluster's Slurm says of jobs before they are submitted.
namespace fsdp {

// The arrays that runs are submitted in: the first run of each, and how many there are.
std::vector<std::pair<const Run*, int64_t>> arrays_of(const std::vector<Run>& runs);

struct QueueCheck {
  std::vector<std::string> refused;  // a line for each kind of job, with what to change
  std::string not_known;             // why Slurm does not say it all; empty: it does
};

// Nothing is submitted, and Slurm is not waited for long.
QueueCheck check_queue(const Expansion& expansion);

}  // namespace fsdp
