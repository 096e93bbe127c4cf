#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/spec/slurm_spec.h"

// Options of Slurm's programs, as words.
namespace fsdp {

// `value`, which a script can hold. Throws ConfigError, about `key`, when it has a line break or
// another control character.
std::string_view checked_line(const std::string& key, std::string_view value);

// --gres=gpu:a100:4 or --gpus-per-node=a100:4
std::string gpu_option(const SlurmSpec& slurm, int64_t gpus_per_node);

// `options` as they are. Throws ConfigError, about `key`, for one that cannot be one word: its name
// and its value are apart ("--nice 100").
std::vector<std::string> checked_options(const std::string& key,
                                         const std::vector<std::string>& options);

// Throws ConfigError when one of sbatch's options chooses a cluster: about jobs elsewhere nobody
// asks here.
void refuse_other_clusters(const std::string& key, const std::vector<std::string>& options);

// `option` as a word of a line `#SBATCH ...`, in which quotes group, a backslash escapes, # begins
// a comment, and hetjob anywhere means a job of several parts.
std::string sbatch_quoted(std::string_view option);

// `path` in a pattern of file names, where % has a meaning. Throws ConfigError on a backslash,
// which turns off every pattern.
std::string file_name_pattern(const std::filesystem::path& path);

// A time limit as Slurm writes it, "1-12:30:00", in seconds; absent: none.
std::optional<int64_t> seconds_of(std::string_view time);

}  // namespace fsdp
