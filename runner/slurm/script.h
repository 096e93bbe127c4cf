#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "contract/spec/run_spec.h"
#include "contract/spec/slurm_spec.h"
#include "runner/slurm/request.h"

// Batch scripts: a template in which {{names}} are replaced.
namespace fsdp {

inline constexpr const char* kScriptName = "script.sh";  // in the submission's folder

// A run as a task of a job array.
struct SlurmTask {
  std::filesystem::path spec;  // <run>/run.yaml, absolute
  std::string configuration;   // printed before the run starts; run_configuration()
};

struct SlurmScript {
  SlurmSpec slurm;
  SlurmRequest request;  // allocation: the largest of all runs
  std::string experiment;
  std::string token;             // makes the submission known again: --comment=fsdp-run:<token>
  std::filesystem::path folder;  // the submission's, absolute
  std::filesystem::path runner;
  std::filesystem::path trainer;
  std::filesystem::path working_directory;
  std::vector<SlurmTask> tasks;  // 0, 1, ...: an array, also of one. allocation: none
  bool keeps_checkpoints = false;
  // What a container sees beside the submission's folder and the runs' folders.
  std::vector<std::filesystem::path> folders;
};

// "run 1xGPU: 2 GPUs, total batch 8 = 2 GPUs x 4 per GPU x 1 accumulation step": what workflow logs
// show before they start. `spec` is resolved.
std::string run_configuration(std::string_view run, const RunSpec& spec);

// The text of slurm.template, else the shipped one: slurm_templates/<mode>.sh. Throws ConfigError
// when the user's cannot be read.
std::string template_text(const SlurmSpec& slurm);

// The script, for sbatch. Whatever the values hold, each stays one word of one command. Throws
// ConfigError when the template has an unknown placeholder or lacks one that it needs (place:
// slurm.template), or when a value has a character that a script cannot hold (a line break).
std::string render_script(std::string_view template_text, const SlurmScript& script);

// Throws ConfigError for what would keep a run from being submitted: its request, its template and
// every value in its script.
void check_script(const RunSpec& spec);

}  // namespace fsdp
