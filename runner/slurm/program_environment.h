#pragma once

#include <string>
#include <string_view>
#include <vector>

// Environments (NAME=value) for Slurm's programs. They leave out variables that change answers or
// override a script's options.
namespace fsdp {

// Gives English, complete answers. Leaves out defaults and filters of squeue, sacct and scancel,
// and the variables of a job that this process may run in.
std::vector<std::string> program_environment();

// The environment of sbatch, where SBATCH_... would override the script. Leaves out the variables
// of options that the script sets.
std::vector<std::string> submission_environment(std::string_view script);

}  // namespace fsdp
