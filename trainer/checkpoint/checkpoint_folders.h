#pragma once

#include <filesystem>
#include <vector>

#include "contract/record/run_paths.h"

// The folders in <run>/checkpoints/ (contract/record/checkpoint_folders.h). One process of a run
// changes them: rank 0.
namespace fsdp {

// The checkpoints by their names, the one with the most steps first, whatever state they are in.
std::vector<std::filesystem::path> checkpoints_newest_first(const RunPaths& paths);

// Removes what a writer that was stopped left behind. Not while one writes.
void remove_partial_checkpoints(const RunPaths& paths);

// The empty folder that step N's files are written to. Throws std::runtime_error, as the functions
// below do, with what to do; also where the run's folder is not there any more, which is not made
// anew.
std::filesystem::path create_partial_checkpoint(const RunPaths& paths, int64_t step);

// Makes the complete step-<N>.partial step-<N>, in place of an earlier one; at every moment one of
// them is among checkpoints_newest_first.
void publish_checkpoint(const RunPaths& paths, int64_t step);

// Removes complete checkpoints but step-<written>, the `keep` - 1 others with the most steps, and
// the one with the lowest validation loss.
void remove_old_checkpoints(const RunPaths& paths, int64_t written, int64_t keep);

}  // namespace fsdp
