#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "contract/spec/run_spec.h"
#include "contract/spec/slurm_spec.h"
#include "runner/cluster/request.h"

namespace fsdp {

// Renders batch scripts from a template with {{names}}.

extern const std::string_view kJobTemplate;              // slurm_templates/job.sh
inline constexpr const char* kScriptName = "script.sh";  // in the submission's folder

struct SlurmScript {
  SlurmSpec slurm;
  SlurmRequest request;  // allocation: the largest of all runs
  std::string experiment;
  std::filesystem::path folder;  // the submission's, absolute
  std::filesystem::path runner;
  std::filesystem::path working_directory;
  int64_t array_tasks = 0;                  // one task per run; 0: no array
  std::vector<std::string> earlier_jobs{};  // which must end before this one begins
  bool keeps_checkpoints = false;
};

// Describes a resolved run for the job's output: `2xFSDP: 2 GPUs on 1 node, total batch 8 = 2 GPUs
// x per-device batch 4 x accumulation 1`.
std::string run_configuration(std::string_view run, const RunSpec& spec);

// The text of slurm.template, or else of slurm_templates/job.sh. Throws ConfigError if the user's
// template cannot be read.
std::string template_text(const SlurmSpec& slurm);

// Renders the script for sbatch. Each value stays one word of one command, whatever it holds.
// Throws ConfigError if the template has an unknown name or lacks a needed one (place:
// slurm.template). Also throws if a value has a character that a script cannot hold (a line break).
std::string render_script(std::string_view template_text, const SlurmScript& script);

// Throws ConfigError for anything that would prevent submission of the run: its request, its
// template, and every value in its script and steps.
void check_script(const RunSpec& spec);

// The file with the messages of a job's batch script: the script's --error, else its --output, with
// Slurm's patterns filled in. The script is in the submission's `folder`. `task` is "12_3" or "12".
// Unknown values stay patterns: %j of an array's task, and all ids if `task` is empty.
std::filesystem::path job_output(const std::filesystem::path& folder, std::string_view task);

// Returns the path as text for users, and says if there is no such file.
std::string output_text(const std::filesystem::path& job_output);

// The last message of fsdp-run in a job's output. Empty if there is none.
std::string last_message(const std::filesystem::path& job_output);

// Creates the folders of slurm.output and slurm.error, unless a folder's name has a pattern. Slurm
// ends a job without a word if it cannot open its output. Throws ConfigError.
void create_output_folders(const SlurmScript& script);

}  // namespace fsdp
