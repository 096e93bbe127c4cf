#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "contract/record/run_paths.h"

namespace fsdp {

// A folder in <run>/checkpoints/, by its name.
struct CheckpointFolder {
  enum class State {
    kComplete,  // step-<N>
    kReplaced,  // step-<N>.replaced: complete, and step-<N> while there is no folder of that name
    kPartial,   // step-<N>.partial: being written, or being removed
  };
  int64_t step = 0;
  State state = State::kComplete;
  std::filesystem::path folder;
};

// Sorted by step, the highest first, then by state in the order of the enum.
std::vector<CheckpointFolder> list_checkpoint_folders(const RunPaths& paths);

// The name of a step's folder in this state.
std::filesystem::path checkpoint_folder(const RunPaths& paths, int64_t step,
                                        CheckpointFolder::State state);

}  // namespace fsdp
