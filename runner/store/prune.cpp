#include "runner/store/prune.h"

#include <algorithm>
#include <array>
#include <map>
#include <ranges>
#include <system_error>

#include "contract/files/input_file.h"
#include "contract/record/checkpoint_folders.h"
#include "contract/text/foreign_json.h"
#include "runner/store/folder_removal.h"
#include "runner/store/results_unavailable.h"

namespace fsdp {
namespace {

using std::filesystem::path;

int64_t size_of(const path& folder) {
  int64_t size_bytes = 0;
  std::error_code error;
  for (auto entry = std::filesystem::recursive_directory_iterator(folder, error);
       entry != std::filesystem::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->is_regular_file(error) && !entry->is_symlink(error)) {
      size_bytes += static_cast<int64_t>(entry->file_size(error));
    }
    if (error) break;
  }
  return size_bytes;
}

// A merged run's folder belongs to the results it came from.
bool has_own_folder(const path& results, const RunRecord& run) {
  return run.source.empty() && is_own_run_folder(results, run.folder);
}

bool is_of_its_step(const RunPaths& paths, const CheckpointFolder& checkpoint) {
  using enum CheckpointFolder::State;
  return checkpoint.state == kComplete ||
         (checkpoint.state == kReplaced &&
          !std::filesystem::exists(paths.checkpoint(checkpoint.step)));
}

// True if every file in its trainer.json exists and has the listed size.
bool is_whole(const path& checkpoint) try {
  const std::string text =
      read_input_file(checkpoint / kTrainerStateName, kLargestTrainerStateBytes);
  const auto state = parse_foreign_json(text, kLargestTrainerStateBytes);
  return std::ranges::all_of(
      state.value("files", nlohmann::json::array()), [&](const nlohmann::json& file) {
        const path place = checkpoint / file.at("name").get<std::string>();
        return std::filesystem::file_size(place) == file.at("size_bytes").get<uintmax_t>();
      });
} catch (const std::exception&) {  // damaged, or not there
  return false;
}

// Returns all checkpoints of a run, except the newest `keep_last` complete ones. Links are left
// out, because they may lead to another run's.
std::vector<CheckpointFolder> prunable_checkpoints(const RunPaths& paths, int64_t keep_last) {
  std::error_code not_there;
  if (std::filesystem::is_symlink(paths.checkpoints(), not_there)) return {};
  std::vector<CheckpointFolder> checkpoints = list_checkpoint_folders(paths);
  int64_t kept = 0;
  std::erase_if(checkpoints, [&](const CheckpointFolder& each) {
    if (std::filesystem::is_symlink(each.folder, not_there)) return true;
    return is_of_its_step(paths, each) && is_whole(each.folder) && ++kept <= keep_last;
  });
  return checkpoints;
}

bool is_running(const Store& store, const RunRecord& run,
                const std::vector<AttemptRecord>& attempts) {
  if (std::ranges::find(attempts, RunStatus::kRunning, &AttemptRecord::status) != attempts.end()) {
    return true;
  }
  return std::ranges::any_of(store.jobs_of_run(run.id),
                             [](const JobRecord& job) { return !job.tasks.front().over; });
}

bool is_wanted(const Store& store, const RunRecord& run, const PruneWish& wish) {
  if (!wish.runs.contains(run.id) || (wish.not_current && run.current)) return false;
  const std::vector<AttemptRecord> attempts = store.attempts(run.id);
  if (run.source.empty() && is_running(store, run, attempts)) return false;
  if (!wish.older_than_unix_ms) return true;
  // A run that was never started has no age.
  return !attempts.empty() && attempts.back().started_unix_ms < *wish.older_than_unix_ms;
}

// Returns the run folders of these results that somebody has begun to remove.
std::vector<path> folders_being_removed(const path& results) {
  std::vector<path> folders;
  std::error_code not_there;
  for (const auto& experiment : std::filesystem::directory_iterator(results / "runs", not_there)) {
    for (const auto& run : std::filesystem::directory_iterator(experiment.path(), not_there)) {
      const bool is_own = is_own_run_folder(results, run.path().lexically_relative(results));
      if (is_own && is_being_removed(run.path())) folders.push_back(run.path());
    }
  }
  return folders;
}

PruneItem item_of(const path& folder) { return {.folder = folder, .size_bytes = size_of(folder)}; }

// Returns the runs with a folder that a killed prune took away on a full disk, and the folder's
// name now. If a run has a folder again, or no attempt, it is another run.
std::map<int64_t, path> runs_without_folder(const std::vector<RunRecord>& runs, const path& results,
                                            const std::vector<path>& leftovers) {
  std::map<int64_t, path> taken;
  for (const path& folder : leftovers) {
    const std::optional<path> before = taken_before_rows(folder);
    if (!before || std::filesystem::exists(*before)) continue;
    const auto run = std::ranges::find_if(runs, [&](const RunRecord& each) {
      return each.source.empty() && each.attempt > 0 && results / each.folder == *before;
    });
    if (run != runs.end()) taken.emplace(run->id, folder);
  }
  return taken;
}

// Sets each item's keeper: a run that stays and resumes from the item.
void find_keepers(const NamedFolders& named, std::vector<PruneItem>& items) {
  std::set<int64_t> going;
  for (const PruneItem& item : items) {
    if (item.run && !item.checkpoint_step) going.insert(item.run->id);
  }
  const auto is_newly_kept = [&](PruneItem& item) {
    if (item.kept_for || item.folder.empty()) return false;
    for (const ResumedFrom& resumed : named.resumed_from(item.folder)) {
      if (going.contains(resumed.by.id)) continue;
      item.kept_for = resumed;
      if (item.run) going.erase(item.run->id);
      return true;
    }
    return false;
  };
  while (std::ranges::any_of(items, is_newly_kept)) {  // a kept item may keep another
  }
}

RunPaths run_of_checkpoint(const PruneItem& item) {
  return RunPaths(item.folder.parent_path().parent_path());
}

bool is_partial(const PruneItem& item) {
  return item.folder == checkpoint_folder(run_of_checkpoint(item), *item.checkpoint_step,
                                          CheckpointFolder::State::kPartial);
}

// True if another folder holds the checkpoint of this step.
bool has_another(const PruneItem& item) {
  using State = CheckpointFolder::State;
  return std::ranges::any_of(std::array{State::kComplete, State::kReplaced}, [&](State state) {
    const path other = checkpoint_folder(run_of_checkpoint(item), *item.checkpoint_step, state);
    return other != item.folder && std::filesystem::exists(other);
  });
}

// Removes the item's rows from the database. Returns false if the run is running now.
bool forget(Store& store, const path& results, const PruneItem& item) {
  if (!item.run) return true;
  if (item.checkpoint_step) {
    // A partial checkpoint has a row only if its folder was taken away earlier.
    if (!has_another(item)) {
      const RunPaths paths = run_of_checkpoint(item);
      store.delete_checkpoint(
          item.run->id,
          paths.checkpoint(*item.checkpoint_step).lexically_relative(results / item.run->folder));
    }
    // Left by an earlier call or a trainer. The complete checkpoint of the step will get its name.
    if (is_partial(item)) remove_folder(item.folder);
    return true;
  }
  Store::Batch batch(store);
  // If runs share a folder, it goes with the last of them.
  const bool has_folder =
      !item.folder.empty() && has_own_folder(results, *item.run) && !store.shares_folder(*item.run);
  if (!store.delete_run(item.run->id)) return false;
  if (has_folder) mark_for_removal(item.folder);
  batch.commit();
  return true;
}

// Does the same; nullopt if the disk has no room for the changes.
std::optional<bool> try_to_forget(Store& store, const path& results, const PruneItem& item) {
  try {
    return forget(store, results, item);
  } catch (const std::exception& error) {
    if (!says_disk_full(error)) throw;
    return std::nullopt;
  }
}

// Gives an item's folder its name for removal; nullopt if it is gone already.
std::optional<path> taken_away(const PruneItem& item) {
  if (!item.checkpoint_step) return take_away(item.folder);
  return renamed(item.folder, checkpoint_folder(run_of_checkpoint(item), *item.checkpoint_step,
                                                CheckpointFolder::State::kPartial));
}

bool is_in_use(const NamedFolders& named, const PruneItem& item) {
  if (!item.checkpoint_step && named.is_of_run(item.folder, {})) return true;
  return !named.resumed_from(item.folder).empty();
}

// Takes the item's folder away and empties it, before its rows, which a full disk has no room to
// change. The empty folder stays until they are gone, so the next call can find it.
void make_room_with(Store& store, const path& results, PruneItem& item) {
  if (!taken_before_rows(item.folder)) {
    const Store::Batch nobody_plans(store);
    const std::optional<RunRecord> run = store.run(item.run->id);
    const bool may_go = run && !item.folder.empty() && !store.shares_folder(*run) &&
                        !is_running(store, *run, store.attempts(run->id)) &&
                        NamedFolders(store, results).resumed_from(item.folder).empty();
    const bool is_there = may_go && (item.checkpoint_step || has_own_folder(results, *run));
    if (!is_there) return;
    const auto taken = !item.checkpoint_step ? take_away_before_rows(item.folder)
                       : is_partial(item)    ? std::optional(item.folder)
                                             : taken_away(item);
    if (taken) item.folder = *taken;
  }
  remove_contents(item.folder);
}

// Takes away the folders that no run names, and returns their new names. Runs may have been planned
// since the items were found.
std::vector<path> take_away_unnamed(Store& store, const path& results,
                                    const std::vector<PruneItem>& forgotten,
                                    std::vector<PruneItem>& left_alone) {
  std::vector<path> taken;
  const Store::Batch nobody_plans(store);
  const NamedFolders named(store, results);
  for (const PruneItem& item : forgotten) {
    if (item.folder.empty()) continue;
    const bool is_to_go = item.checkpoint_step || is_being_removed(item.folder);
    if (is_in_use(named, item)) {
      if (is_to_go || !item.run) left_alone.push_back(item);
    } else if (is_to_go) {
      if (const auto folder = taken_away(item)) taken.push_back(*folder);
    }
  }
  return taken;
}

// Removes an experiment's folder after its last run. A run is recorded before it has a folder.
void remove_if_empty(Store& store, const path& results, const path& experiment) {
  const Store::Batch nobody_plans(store);
  const path folder = experiment.lexically_relative(results);
  if (std::ranges::any_of(
          store.runs(), [&](const RunRecord& run) { return run.folder.parent_path() == folder; })) {
    return;
  }
  std::error_code not_empty;
  std::filesystem::remove(experiment, not_empty);
}

// Removes the files of forgotten items.
void remove_forgotten(Store& store, const path& results, std::vector<PruneItem>& forgotten,
                      std::vector<PruneItem>& left_alone) {
  for (const path& folder : take_away_unnamed(store, results, forgotten, left_alone)) {
    remove_folder(folder);
  }
  for (const PruneItem& item : forgotten) {
    const bool is_of_run = !item.folder.empty() && !item.checkpoint_step;
    if (is_of_run) remove_if_empty(store, results, item.folder.parent_path());
  }
  forgotten.clear();
}

}  // namespace

std::vector<PruneItem> find_prunable(const Store& store, const path& results,
                                     const PruneWish& wish) {
  // Read before the rows, because a run is recorded before it has a folder.
  const std::vector<path> leftovers = folders_being_removed(results);
  const NamedFolders named(store, results);
  std::vector<RunRecord> wanted = store.runs();
  const std::map<int64_t, path> half_removed = runs_without_folder(wanted, results, leftovers);
  std::erase_if(wanted, [&](const RunRecord& run) {
    return half_removed.contains(run.id) ? !wish.runs.contains(run.id)
                                         : !is_wanted(store, run, wish);
  });
  std::set<int64_t> all;
  for (const RunRecord& run : wanted) all.insert(run.id);
  std::vector<PruneItem> items;
  for (const RunRecord& run : wanted) {
    const std::set<int64_t> itself{run.id};
    const path folder = results / run.folder;
    if (const auto taken = half_removed.find(run.id); taken != half_removed.end()) {
      items.push_back(item_of(taken->second));
      items.back().run = run;
      continue;
    }
    const bool has_folder =
        has_own_folder(results, run) && !named.is_of_run(folder, wish.checkpoints ? itself : all);
    if (!wish.checkpoints) {
      PruneItem& item = items.emplace_back(has_folder ? item_of(folder) : PruneItem());
      item.run = run;
    } else if (has_folder) {
      for (const CheckpointFolder& checkpoint :
           prunable_checkpoints(RunPaths(folder), wish.keep_last)) {
        PruneItem& item = items.emplace_back(item_of(checkpoint.folder));
        item.run = run;
        item.checkpoint_step = checkpoint.step;
      }
    }
  }
  for (const path& folder : leftovers) {
    const bool has_rows = std::ranges::find(half_removed | std::views::values, folder) !=
                          std::ranges::end(half_removed | std::views::values);
    if (!has_rows && !named.is_of_run(folder, {})) items.push_back(item_of(folder));
  }
  find_keepers(named, items);
  return items;
}

std::vector<PruneItem> prune(Store& store, const path& results, std::vector<PruneItem> items) {
  std::vector<PruneItem> left_alone, forgotten, waiting;
  find_keepers(NamedFolders(store, results), items);
  // Folders that no run names come first: their removal makes room and needs none in the database.
  std::ranges::stable_partition(items, [](const PruneItem& item) { return !item.run; });
  for (PruneItem& item : items) {
    if (item.kept_for) {
      left_alone.push_back(std::move(item));
      continue;
    }
    std::optional<bool> goes = try_to_forget(store, results, item);
    if (!goes) {
      remove_forgotten(store, results, forgotten, left_alone);
      goes = try_to_forget(store, results, item);
    }
    if (!goes) {
      make_room_with(store, results, item);
      goes = try_to_forget(store, results, item);
    }
    (!goes ? waiting : *goes ? forgotten : left_alone).push_back(std::move(item));
  }
  for (PruneItem& item : waiting) {
    const bool goes = forget(store, results, item);
    (goes ? forgotten : left_alone).push_back(std::move(item));
  }
  remove_forgotten(store, results, forgotten, left_alone);
  return left_alone;
}

}  // namespace fsdp
