#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runner/store/run_folders.h"
#include "runner/store/store.h"

// What of a results folder is removed on request. A run that is running, or has a job that is not
// over, is never among it, unless it was merged; nor is a checkpoint that another run resumes from.
// The caller holds the locks of the experiments that it passes.
namespace fsdp {

struct PruneWish {
  std::set<int64_t> runs;                     // only of these
  std::optional<int64_t> older_than_unix_ms;  // of runs whose newest attempt began before
  bool not_current = false;                   // of runs that left their experiment's list
  bool checkpoints = false;                   // their checkpoints only
  int64_t keep_last = 0;                      // checkpoints of a run, those of most steps
};

// One folder, with all that the database says of it.
struct PruneItem {
  // Of a run or of one checkpoint; absent: what an earlier call that was killed left of a run.
  std::optional<RunRecord> run{};
  std::optional<int64_t> checkpoint_step{};
  std::filesystem::path folder{};  // empty: it is not of these results, and stays
  int64_t size_bytes = 0;
  std::optional<ResumedFrom> kept_for{};  // a run that stays: so does the item
};

// In the order of experiments and their runs.
std::vector<PruneItem> find_prunable(const Store& store, const std::filesystem::path& results,
                                     const PruneWish& wish);

// Marks folders and removes what the database says; then, while nobody can plan a run, gives those
// that no run names other names; then removes them. What is left when it is killed in between is
// found by the next find_prunable, and no row is left without its folder. Returns what was left
// alone, because a run is running or needs the folder now.
std::vector<PruneItem> prune(Store& store, const std::filesystem::path& results,
                             std::vector<PruneItem> items);

}  // namespace fsdp
