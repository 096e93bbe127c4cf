#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "contract/spec/run_spec.h"
#include "contract/spec/slurm_spec.h"

namespace fsdp {

// What a run asks of Slurm. Every node has as many ranks, and on GPUs a GPU for each of them.
struct SlurmRequest {
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;
  int64_t gpus_per_node = 0;  // 0: on the CPU

  int64_t ranks() const { return nodes * ranks_per_node; }
  auto operator<=>(const SlurmRequest&) const = default;
};

// As few nodes as slurm.gpus_per_node allows; on the CPU spread over slurm.nodes. Throws
// ConfigError (place empty) when slurm.nodes or slurm.gpus_per_node are too few or the ranks do not
// spread evenly.
SlurmRequest slurm_request(const SlurmSpec& slurm, int64_t ranks, bool uses_gpus);
SlurmRequest slurm_request(const RunSpec& spec);

// A request in which each of `requests` has room.
SlurmRequest largest(const std::vector<SlurmRequest>& requests);

// Whether two runs can be tasks of one array: they ask the same of Slurm, in the same words.
bool may_share_array(const RunSpec& a, const RunSpec& b);

// The folders that a run in a container needs to see beside the results: those of its input files,
// and of a checkpoint that it resumes from. In order, each once.
std::vector<std::filesystem::path> input_folders(const RunSpec& spec);

// Throws ConfigError when two runs of one job differ in their section `slurm`: it can only ask
// once.
void check_one_job(const std::string& one_point, const SlurmSpec& one,
                   const std::string& other_point, const SlurmSpec& other);

}  // namespace fsdp
