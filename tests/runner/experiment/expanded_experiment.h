#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/text/config_error.h"
#include "runner/experiment/experiment.h"
#include "tests/temporary_folder.h"

namespace fsdp {

inline const Resources kNoGpus{.gpu_count = 0, .gpu_memory_gib = 0, .cpu_cores = 2};
inline const Resources kFourGpus{.gpu_count = 4, .gpu_memory_gib = 79.2, .cpu_cores = 64};

// Writes an accepted experiment into the folder of this variable, for
// tests/experiments/test_schema.py.
inline void keep_experiment(const std::string& text) {
  static int count = 0;
  const char* folder = std::getenv("FSDP_KEPT_EXPERIMENTS");
  if (folder == nullptr) return;
  std::ofstream(std::filesystem::path(folder) / (std::to_string(++count) + ".yaml")) << text;
}

// Loads and expands an experiment of this text.
inline Expansion expanded(const std::string& text, const ExpandOptions& options = {},
                          const Resources& resources = kNoGpus) {
  const TemporaryFolder folder;
  Expansion expansion = Experiment::load(folder.write("lab.yaml", text)).expand(options, resources);
  keep_experiment(text);
  return expansion;
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
