#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "contract/spec/slurm_spec.h"
#include "runner/slurm/request.h"

namespace fsdp {

// The words of the command that starts a run's ranks inside a job.
struct StepCommand {
  std::vector<std::string> srun;     // "srun" and its options
  std::vector<std::string> trainer;  // the program, in its container if any
};

// A container sees `folders` at the same paths. Throws ConfigError if srun or the engine would
// misread an option or a path.
StepCommand step_command(const SlurmSpec& slurm, const SlurmRequest& request,
                         const std::filesystem::path& trainer,
                         const std::filesystem::path& working_directory,
                         const std::vector<std::filesystem::path>& folders);

}  // namespace fsdp
