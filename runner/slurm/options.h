#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/spec/slurm_spec.h"

// Helpers for the options of Slurm's programs.
namespace fsdp {

// Returns `value` if a script can hold it. Throws ConfigError about `key` if it has a line break or
// another control character.
std::string_view checked_line(const std::string& key, std::string_view value);

// --gres=gpu:a100:4 or --gpus-per-node=a100:4
std::string gpu_option(const SlurmSpec& slurm, int64_t gpus_per_node);

// Returns `options` unchanged. Throws ConfigError about `key` if a space separates an option's name
// and value ("--nice 100"), because each option must be one word.
std::vector<std::string> checked_options(const std::string& key,
                                         const std::vector<std::string>& options);

// Throws ConfigError if an sbatch option chooses a cluster, where this host cannot ask about jobs.
void refuse_other_clusters(const std::string& key, const std::vector<std::string>& options);

// Quotes `option` as one word of a line `#SBATCH ...`. There, quotes group, a backslash escapes,
// and # begins a comment. The word hetjob anywhere would mean a job of several parts.
std::string sbatch_quoted(std::string_view option);

// Escapes % in `path` for a file name pattern. Throws ConfigError on a backslash, which turns off
// all patterns.
std::string file_name_pattern(const std::filesystem::path& path);

// Converts Slurm's time limit, "1-12:30:00", to seconds. nullopt: no limit.
std::optional<int64_t> seconds_of(std::string_view time);

}  // namespace fsdp
