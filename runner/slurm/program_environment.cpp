#include "runner/slurm/program_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runner/launch/supervised_launches.h"

namespace fsdp {
namespace {

using std::string_view_literals::operator""sv;

bool changes_answers(std::string_view name) {
  static constexpr std::array kPrefixes = {"SQUEUE_"sv,   "SACCT_"sv, "SCANCEL_"sv,
                                           "SCONTROL_"sv, "SLURM_"sv, "LC_"sv};
  // These variables locate the cluster and identify the user.
  static constexpr std::array kKept = {"SLURM_CONF"sv, "SLURM_CONF_SERVER"sv, "SLURM_CLUSTERS"sv,
                                       "SLURM_JWT"sv};
  return std::ranges::find(kKept, name) == kKept.end() &&
         std::ranges::any_of(kPrefixes, [&](auto prefix) { return name.starts_with(prefix); });
}

// True if our scripts always override the variable, if it would harm them, or if this script sets
// the same option.
bool is_outranked(std::string_view name, std::string_view script) {
  static constexpr std::array kAlways = {
      "SBATCH_ARRAY_INX"sv,     "SBATCH_CLUSTERS"sv,      "SBATCH_DEBUG"sv,     "SBATCH_GPUS"sv,
      "SBATCH_GPUS_PER_NODE"sv, "SBATCH_GPUS_PER_TASK"sv, "SBATCH_GRES"sv,      "SBATCH_INPUT"sv,
      "SBATCH_JOB_NAME"sv,      "SBATCH_NO_REQUEUE"sv,    "SBATCH_OPEN_MODE"sv, "SBATCH_OUTPUT"sv,
      "SBATCH_REQUEUE"sv,       "SBATCH_WAIT"sv};
  static constexpr std::pair<std::string_view, std::string_view> kOptions[] = {
      {"SBATCH_ACCOUNT", "account="},
      {"SBATCH_PARTITION", "partition="},
      {"SBATCH_QOS", "qos="},
      {"SBATCH_RESERVATION", "reservation="},
      {"SBATCH_CONSTRAINT", "constraint="},
      {"SBATCH_TIMELIMIT", "time="},
      {"SBATCH_EXCLUSIVE", "exclusive"},
      {"SBATCH_MEM_PER_NODE", "mem="},
      {"SBATCH_MEM_PER_CPU", "mem="},
      {"SBATCH_MEM_PER_GPU", "mem="},
      {"SBATCH_ERROR", "error="},
      {"SBATCH_SIGNAL", "signal="}};
  const auto has = [&](std::string_view line) { return script.find(line) != script.npos; };
  if (std::ranges::find(kAlways, name) != kAlways.end()) return true;
  return std::ranges::any_of(kOptions, [&](const auto& entry) {
    const auto& [variable, option] = entry;
    return variable == name && (has(fmt::format("\n#SBATCH --{}", option)) ||
                                has(fmt::format("\n#SBATCH \"--{}", option)));
  });
}

// Our variables with names that satisfy `is_kept`.
template <typename IsKept>
std::vector<std::string> variables_that(const IsKept& is_kept) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : own_environment()) {
    if (is_kept(name)) variables.push_back(name + '=' + value);
  }
  return variables;
}

}  // namespace

std::vector<std::string> program_environment() {
  auto variables = variables_that([](std::string_view name) { return !changes_answers(name); });
  variables.emplace_back("LC_ALL=C");
  variables.emplace_back("SLURM_BITSTR_LEN=0");  // lists of an array's tasks are not cut short
  return variables;
}

std::vector<std::string> submission_environment(std::string_view script) {
  return variables_that([&](std::string_view name) {
    const bool is_language = name.starts_with("LC_");  // the user's, for the job
    return (is_language || !changes_answers(name)) && !is_outranked(name, script);
  });
}

}  // namespace fsdp
