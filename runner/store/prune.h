#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runner/store/run_folders.h"
#include "runner/store/store.h"

// Removes folders of runs on request; Store::sync forgets them. A run that is running, or has a job
// that is not over, is never removed, unless it was merged. The inputs of other runs are never
// removed either. The caller holds the locks of the experiments that it passes.
namespace fsdp {

struct PruneWish {
  std::set<int64_t> runs;                     // only these runs
  std::optional<int64_t> older_than_unix_ms;  // only runs that began their newest attempt before
  bool not_current = false;                   // only runs that left their experiment's list
  bool checkpoints = false;                   // only the runs' checkpoints, not the runs
  int64_t keep_last = 0;                      // how many of a run's latest checkpoints to keep
};

// One folder that prune removes.
struct PruneItem {
  // The run that the item is, or that has the checkpoint. nullopt: the item is the rest of a run
  // that a killed prune() left.
  std::optional<RunRecord> run{};
  std::optional<int64_t> checkpoint_step{};
  std::filesystem::path folder{};  // empty: a link leads to the run's folder, so the run stays
  int64_t size_bytes = 0;
  std::optional<InputOfRun> kept_for{};  // set if a run that stays reads the item; it stays too
};

// Returns the items in the order of experiments and their runs.
std::vector<PruneItem> find_prunable(const Store& store, const std::filesystem::path& results,
                                     const PruneWish& wish);

// Removes the items that `wish` found and that have a folder, one after the other. If the process
// is killed in between, the next find_prunable finds the rest. Returns the items that were left
// alone, because a run is running or needs the folder now.
std::vector<PruneItem> prune(Store& store, const std::filesystem::path& results,
                             const PruneWish& wish, std::vector<PruneItem> items);

}  // namespace fsdp
