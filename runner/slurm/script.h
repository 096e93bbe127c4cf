#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "contract/spec/run_spec.h"
#include "contract/spec/slurm_spec.h"
#include "runner/slurm/request.h"

// Batch scripts: a template in which {{names}} are replaced.
namespace fsdp {

extern const std::string_view kJobTemplate;              // slurm_templates/job.sh
inline constexpr const char* kScriptName = "script.sh";  // in the submission's folder

struct SlurmScript {
  SlurmSpec slurm;
  SlurmRequest request;  // allocation: the largest of all runs
  std::string experiment;
  std::string token;             // makes the submission known again: --comment=fsdp-run:<token>
  std::filesystem::path folder;  // the submission's, absolute
  std::filesystem::path runner;
  std::filesystem::path working_directory;
  int64_t array_tasks = 0;  // runs, of which each is a task of an array; 0: no array
  bool keeps_checkpoints = false;
};

// "2xFSDP: 2 GPUs on 1 node, total batch 8 = 2 GPUs x per-device batch 4 x accumulation 1", for the
// job's output. `spec` is resolved.
std::string run_configuration(std::string_view run, const RunSpec& spec);

// The text of slurm.template, else the shipped one: slurm_templates/job.sh. Throws ConfigError
// when the user's cannot be read.
std::string template_text(const SlurmSpec& slurm);

// The script, for sbatch. Whatever the values hold, each stays one word of one command. Throws
// ConfigError when the template has an unknown placeholder or lacks one that it needs (place:
// slurm.template), or when a value has a character that a script cannot hold (a line break).
std::string render_script(std::string_view template_text, const SlurmScript& script);

// Throws ConfigError for what would keep a run from being submitted: its request, its template and
// every value in its script and its steps.
void check_script(const RunSpec& spec);

}  // namespace fsdp
