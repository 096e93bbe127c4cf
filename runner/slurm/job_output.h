#pragma once

#include <filesystem>
#include <string_view>

namespace fsdp {

// The file that a job's batch script writes to: --output as the script in the submission's
// `folder` asks for it, Slurm's patterns filled in. `task` is "12_3" or "12". What is not known
// stays a pattern: %j, the own id of an array's task, and all ids where `task` is empty.
std::filesystem::path job_output(const std::filesystem::path& folder, std::string_view task);

}  // namespace fsdp
