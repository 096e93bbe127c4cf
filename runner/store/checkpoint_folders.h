#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "contract/record/run_paths.h"

namespace fsdp {

// The trainer takes a checkpoint of this name for one that is not whole, and removes it.
inline constexpr const char* kPartialExtension = ".partial";

struct CheckpointFolder {
  int64_t step = 0;
  std::filesystem::path folder;
  std::optional<double> validation_loss;
  bool is_whole = false;  // every file that it lists is there in its size
};

// The checkpoints of a run, of most steps first. Links are left out: they may lead to another
// run's.
std::vector<CheckpointFolder> checkpoints_of(const RunPaths& paths);

}  // namespace fsdp
