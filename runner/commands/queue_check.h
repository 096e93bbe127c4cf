#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "runner/experiment/experiment.h"

// Asks a cluster's Slurm about jobs before they are submitted.
namespace fsdp {

// Returns the first run of each array to submit, and the array's number of runs.
std::vector<std::pair<const Run*, int64_t>> arrays_of(const std::vector<Run>& runs);

struct QueueCheck {
  std::vector<std::string> refused;  // a line for each kind of job, with a remedy
  std::string not_known;             // why Slurm does not tell everything; empty: it does
};

// Submits nothing, and does not wait long for Slurm.
QueueCheck check_queue(const Expansion& expansion);

}  // namespace fsdp
