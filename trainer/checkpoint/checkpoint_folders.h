#pragma once

#include <filesystem>
#include <vector>

#include "contract/record/run_paths.h"

// Changes the folders in <run>/checkpoints/ (contract/record/run_paths.h). Only one
// process of a run does so: rank 0.
namespace fsdp {

// Returns the folders of complete checkpoints, judged by their names alone. The highest step is
// first.
std::vector<std::filesystem::path> checkpoints_newest_first(const RunPaths& paths);

// Removes the folders that a stopped writer left. Restores a replaced checkpoint if the new one was
// not published. Do not call it while a writer is active.
void remove_partial_checkpoints(const RunPaths& paths);

// Creates the empty folder step-<N>.partial. Throws std::runtime_error that names the remedy, as
// the functions below do. Also throws if the run's folder was removed: it is not created again.
std::filesystem::path create_partial_checkpoint(const RunPaths& paths, int64_t step);

// Renames the complete step-<N>.partial to step-<N>, replacing an earlier one. At every moment,
// checkpoints_newest_first() includes either the new or the earlier one.
void publish_checkpoint(const RunPaths& paths, int64_t step);

// Removes complete checkpoints of fewer steps than step-<written>, except the `keep` - 1 of them
// with the most steps, and the one with the lowest validation loss. Those of more steps stay.
void remove_old_checkpoints(const RunPaths& paths, int64_t written, int64_t keep);

}  // namespace fsdp
