#pragma once

#include <filesystem>
#include <string_view>

namespace fsdp {

// The output file of a job's batch script: the script's --output with Slurm's patterns filled in.
// The script is in the submission's `folder`. `task` is "12_3" or "12". Unknown values stay
// patterns: %j of an array's task, and all ids if `task` is empty.
std::filesystem::path job_output(const std::filesystem::path& folder, std::string_view task);

}  // namespace fsdp
