#include "runner/slurm/program_environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace fsdp {
namespace {

using std::string_view_literals::operator""sv;

std::string_view name_of_variable(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

// Where the cluster is and who we are.
bool says_which_cluster(std::string_view name) {
  static constexpr std::array kNames = {"SLURM_CONF"sv, "SLURM_CONF_SERVER"sv, "SLURM_CLUSTERS"sv,
                                        "SLURM_JWT"sv};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool changes_answers(std::string_view name) {
  static constexpr std::array kPrefixes = {"SQUEUE_"sv,   "SACCT_"sv, "SCANCEL_"sv,
                                           "SCONTROL_"sv, "SLURM_"sv, "LC_"sv};
  return !says_which_cluster(name) &&
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// A variable of sbatch, and the option in whose presence it is left out; none: always, as every
// script of ours says it, or as it is wrong for one.
bool is_outranked(std::string_view name, std::string_view script) {
  static constexpr std::array kOptions = {std::pair{"SBATCH_ACCOUNT"sv, "account="sv},
                                          std::pair{"SBATCH_PARTITION"sv, "partition="sv},
                                          std::pair{"SBATCH_QOS"sv, "qos="sv},
                                          std::pair{"SBATCH_RESERVATION"sv, "reservation="sv},
                                          std::pair{"SBATCH_CONSTRAINT"sv, "constraint="sv},
                                          std::pair{"SBATCH_TIMELIMIT"sv, "time="sv},
                                          std::pair{"SBATCH_EXCLUSIVE"sv, "exclusive"sv},
                                          std::pair{"SBATCH_MEM_PER_NODE"sv, "mem="sv},
                                          std::pair{"SBATCH_MEM_PER_CPU"sv, "mem="sv},
                                          std::pair{"SBATCH_MEM_PER_GPU"sv, "mem="sv},
                                          std::pair{"SBATCH_ERROR"sv, "error="sv},
                                          std::pair{"SBATCH_SIGNAL"sv, "signal="sv},
                                          std::pair{"SBATCH_ARRAY_INX"sv, ""sv},
                                          std::pair{"SBATCH_CLUSTERS"sv, ""sv},
                                          std::pair{"SBATCH_DEBUG"sv, ""sv},
                                          std::pair{"SBATCH_GPUS"sv, ""sv},
                                          std::pair{"SBATCH_GPUS_PER_NODE"sv, ""sv},
                                          std::pair{"SBATCH_GPUS_PER_TASK"sv, ""sv},
                                          std::pair{"SBATCH_GRES"sv, ""sv},
                                          std::pair{"SBATCH_INPUT"sv, ""sv},
                                          std::pair{"SBATCH_JOB_NAME"sv, ""sv},
                                          std::pair{"SBATCH_NO_REQUEUE"sv, ""sv},
                                          std::pair{"SBATCH_OPEN_MODE"sv, ""sv},
                                          std::pair{"SBATCH_OUTPUT"sv, ""sv},
                                          std::pair{"SBATCH_REQUEUE"sv, ""sv},
                                          std::pair{"SBATCH_WAIT"sv, ""sv}};
  return std::any_of(kOptions.begin(), kOptions.end(), [&](const auto& entry) {
    const auto& [variable, option] = entry;
    if (variable != name) return false;
    const std::string line = "\n#SBATCH --" + std::string(option);
    const std::string quoted = "\n#SBATCH \"--" + std::string(option);
    return option.empty() || script.find(line) != std::string_view::npos ||
           script.find(quoted) != std::string_view::npos;
  });
}

}  // namespace

std::vector<std::string> program_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!changes_answers(name_of_variable(*variable))) variables.emplace_back(*variable);
  }
  variables.emplace_back("LC_ALL=C");
  variables.emplace_back("SLURM_BITSTR_LEN=0");  // lists of an array's tasks are not cut short
  return variables;
}

std::vector<std::string> submission_environment(std::string_view script) {
  // The job gets this environment: it keeps the user's language.
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view name = name_of_variable(*variable);
    const bool is_language = name.starts_with("LC_");
    if ((is_language || !changes_answers(name)) && !is_outranked(name, script)) {
      variables.emplace_back(*variable);
    }
  }
  return variables;
}

}  // namespace fsdp
