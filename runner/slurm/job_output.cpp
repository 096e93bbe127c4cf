#include "runner/slurm/job_output.h"

#include <fstream>
#include <map>
#include <string>

#include "runner/slurm/script.h"

namespace fsdp {
namespace {

// Reverses sbatch_quoted(), as sbatch does.
std::string unquoted(std::string_view option) {
  std::string text;
  for (size_t i = 0; i < option.size(); ++i) {
    if (option[i] == '"') continue;
    if (option[i] == '\\' && i + 1 < option.size()) ++i;
    text += option[i];
  }
  return text;
}

// The options by name. The last of repeated options wins, as in sbatch.
std::map<std::string, std::string> options_of(const std::filesystem::path& script) {
  constexpr std::string_view kStart = "#SBATCH ";
  std::map<std::string, std::string> options;
  std::ifstream file(script);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kStart)) continue;
    const std::string option = unquoted(std::string_view(line).substr(kStart.size()));
    const size_t equals = option.find('=');
    if (equals != std::string::npos) options[option.substr(0, equals)] = option.substr(equals + 1);
  }
  return options;
}

std::string filled(std::string_view pattern, const std::map<char, std::string>& values) {
  std::string text;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const auto value =
        pattern[i] == '%' && i + 1 < pattern.size() ? values.find(pattern[i + 1]) : values.end();
    if (value == values.end()) {
      text += pattern[i];
    } else {
      text += value->second;
      ++i;
    }
  }
  return text;
}

}  // namespace

std::filesystem::path job_output(const std::filesystem::path& folder, std::string_view task) {
  std::map<std::string, std::string> options = options_of(folder / kScriptName);
  if (!options.contains("--output")) {  // the script is gone
    return folder / (std::string(task) + ".out");
  }
  std::map<char, std::string> values = {{'x', options["--job-name"]}, {'%', "%"}};
  const size_t underscore = task.find('_');
  if (!task.empty()) values['A'] = task.substr(0, underscore);
  if (underscore != std::string_view::npos) {
    values['a'] = task.substr(underscore + 1);
  } else if (!task.empty()) {
    values['j'] = task;
  }
  return std::filesystem::path(options["--chdir"]) / filled(options["--output"], values);
}

}  // namespace fsdp
