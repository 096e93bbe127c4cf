#pragma once

#include <string>
#include <string_view>
#include <vector>

// The environment in which Slurm's programs are started: ours (NAME=value), without what would
// change their answers or outrank a script's options.
namespace fsdp {

// In English, in full, without defaults and filters of squeue, sacct and scancel, and without what
// a job that we may be in was told.
std::vector<std::string> program_environment();

// The environment of sbatch, to which SBATCH_... say more than the script: without the variables
// for which the script has an option of its own.
std::vector<std::string> submission_environment(std::string_view script);

}  // namespace fsdp
