#pragma once

#include <string>
#include <vector>

#include "base/text/config_error.h"
#include "runner/experiment/experiment.h"
#include "tests/temporary_folder.h"

namespace fsdp {

inline const Resources kNoGpus{.gpu_count = 0, .gpu_memory_gib = 0, .cpu_cores = 2};
inline const Resources kFourGpus{.gpu_count = 4, .gpu_memory_gib = 79.2, .cpu_cores = 64};

// Loads and expands an experiment of this text.
inline Expansion expanded(const std::string& text, const ExpandOptions& options = {},
                          const Resources& resources = kNoGpus) {
  const TemporaryFolder folder;
  return Experiment::load(folder.write("lab.yaml", text)).expand(options, resources);
}

// Returns the message of the error that the experiment causes.
inline std::string message(const std::string& text, const ExpandOptions& options = {},
                           const Resources& resources = kNoGpus) {
  const TemporaryFolder folder;
  try {
    Experiment::load(folder.write("lab.yaml", text)).expand(options, resources);
  } catch (const ConfigError& error) {
    return folder.without_folder(error.what());
  }
  return "no error";
}

inline std::vector<std::string> names(const Expansion& expansion) {
  std::vector<std::string> names;
  for (const Run& run : expansion.runs) names.push_back(run.point);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace fsdp
