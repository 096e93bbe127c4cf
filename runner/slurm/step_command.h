#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "contract/spec/slurm_spec.h"
#include "runner/slurm/request.h"

namespace fsdp {

// What starts a run's ranks inside of a job, as words.
struct StepCommand {
  std::vector<std::string> srun;     // "srun" and its options
  std::vector<std::string> trainer;  // the program, in a container where there is one
};

// `folders` are what a container sees, at the same paths. Throws ConfigError when an option or a
// path is of a form that srun or the engine takes for something else.
StepCommand step_command(const SlurmSpec& slurm, const SlurmRequest& request,
                         const std::filesystem::path& trainer,
                         const std::filesystem::path& working_directory,
                         const std::vector<std::filesystem::path>& folders);

}  // namespace fsdp
