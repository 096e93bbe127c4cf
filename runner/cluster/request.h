#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/spec/run_spec.h"
#include "contract/spec/slurm_spec.h"

namespace fsdp {

// Helpers for the options of Slurm's programs.

// Returns `value` if a script can hold it. Throws ConfigError about `key` if it has a line break or
// another control character.
std::string_view checked_line(const std::string& key, std::string_view value);

// --gres=gpu:a100:4 or --gpus-per-node=a100:4
std::string gpu_option(const SlurmSpec& slurm, int64_t gpus_per_node);

// Returns `options` unchanged. Throws ConfigError about `key` if a space separates an option's name
// and value ("--nice 100"), because each option must be one word.
std::vector<std::string> checked_options(const std::string& key,
                                         const std::vector<std::string>& options);

// An option of sbatch that scripts set.
struct ScriptOption {
  std::string_view name;        // "--account"
  std::string_view key;         // that sets it; empty: fsdp-run itself
  std::string_view variable{};  // of sbatch, which would override the script; empty: none
  bool is_default = false;      // the variable applies if the key is absent
};
std::span<const ScriptOption> script_options();

// Throws ConfigError if one of slurm.sbatch_options is a script option or its abbreviation. sbatch
// would ignore it, or take it in place of the key.
void refuse_script_options(const SlurmSpec& slurm);

// Quotes `option` as one word of a line `#SBATCH ...`. There, quotes group, a backslash escapes,
// and # begins a comment. The word hetjob anywhere would mean a job of several parts.
std::string sbatch_quoted(std::string_view option);

// Escapes % in `path` for a file name pattern. Throws ConfigError on a backslash, which turns off
// all patterns.
std::string file_name_pattern(const std::filesystem::path& path);

// Converts Slurm's time limit, "1-12:30:00", to seconds. nullopt: no limit.
std::optional<int64_t> seconds_of(std::string_view time);

// A run's request for nodes. All nodes have equally many ranks, and on GPUs one GPU per rank.
struct SlurmRequest {
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;
  int64_t gpus_per_node = 0;  // 0: on the CPU

  int64_t ranks() const { return nodes * ranks_per_node; }
  auto operator<=>(const SlurmRequest&) const = default;
};

// On GPUs, requests as few nodes as slurm.gpus_per_node allows. On the CPU, spreads the ranks over
// slurm.nodes. Throws ConfigError (empty place) if either key is too small or the ranks do not
// spread evenly.
SlurmRequest slurm_request(const SlurmSpec& slurm, int64_t ranks, bool uses_gpus);
SlurmRequest slurm_request(const RunSpec& spec);

// The smallest request that has room for each of `requests`.
SlurmRequest largest(const std::vector<SlurmRequest>& requests);

// Returns the most that runs can hold within the time limits of their jobs: "at most 12.0 GPU-hours
// and 3.0 node-hours, by slurm.time". Each restart may hold as much again. Empty: there is no run.
std::string most_held_text(const std::vector<RunSpec>& runs);

// True if two runs can be tasks of one array, because their requests are identical.
bool may_share_array(const RunSpec& a, const RunSpec& b);

// The folders that a container must see to read `files` by their names, each once. They include the
// folders to which symbolic links lead. Folders without links come first, so that links lead
// somewhere.
std::vector<std::filesystem::path> folders_to_bind(const std::vector<std::filesystem::path>& files);

// Throws ConfigError if two runs of one job differ in `slurm`, because a job has one request.
void check_one_job(const std::string& one_point, const SlurmSpec& one,
                   const std::string& other_point, const SlurmSpec& other);

}  // namespace fsdp
