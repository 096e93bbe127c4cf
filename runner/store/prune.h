#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runner/store/store.h"

// What of a results folder is removed on request. A run that is running, or has a job that is not
// over, is never among it; the caller holds the locks of the experiments that it passes.
namespace fsdp {

struct PruneWish {
  std::set<int64_t> runs;                     // only of these
  std::optional<int64_t> older_than_unix_ms;  // of runs whose newest attempt began before
  bool not_current = false;                   // of runs that left their experiment's list
  bool checkpoints = false;                   // their checkpoints only
  int64_t keep_last = 0;                      // checkpoints of a run, those of most steps
  int64_t keep_best = 0;                      // checkpoints of a run, by their validation loss
};

// One folder, with all that the database says of it.
struct PruneItem {
  // Of a run or of one checkpoint; absent: of a run that an earlier call was killed at.
  std::optional<RunRecord> run;
  std::optional<int64_t> checkpoint_step;
  std::filesystem::path folder;  // empty: it is not of these results, and stays
  int64_t size_bytes = 0;
};

// In the order of experiments and their runs.
std::vector<PruneItem> find_prunable(const Store& store, const std::filesystem::path& results,
                                     const PruneWish& wish);

// Removes what the database says first, then the folder, marked beforehand: what is left when it is
// killed in between is found by the next find_prunable, and no row is left without its folder.
// Returns false, and does nothing, when the run is running now.
bool prune(Store& store, const std::filesystem::path& results, const PruneItem& item);

}  // namespace fsdp
