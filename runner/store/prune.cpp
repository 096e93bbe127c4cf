#include "runner/store/prune.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "base/files/input_file.h"
#include "base/files/new_file.h"
#include "base/text/foreign_json.h"
#include "contract/record/run_paths.h"
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

bool is_of_its_step(const RunPaths& paths, const CheckpointFolder& checkpoint) {
  using enum CheckpointFolder::State;
  return checkpoint.state == kComplete ||
         (checkpoint.state == kReplaced &&
          !std::filesystem::exists(paths.checkpoint(checkpoint.step)));
}

// True if every file that the checkpoint's trainer.json lists exists and has the listed size.
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
// out, because they may lead to another run's checkpoints.
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

bool is_wanted(const Store& store, const RunRecord& run, const PruneWish& wish) {
  if (!wish.runs.contains(run.id) || (wish.not_current && run.current)) return false;
  if (store.is_under_way(run.id)) return false;
  if (!wish.older_than_unix_ms) return true;
  const std::vector<AttemptRecord> attempts = store.attempts(run.id);
  // A run that was never started has no age.
  return !attempts.empty() && attempts.back().started_unix_ms < *wish.older_than_unix_ms;
}

// Returns the name of a run's folder that is being removed. No run has a folder of such a name.
path name_of_removed(const path& folder) {
  return folder.parent_path() / ('.' + folder.filename().string() + ".pruned");
}

// Returns the run's folder, or the rest of it that a killed prune left; empty if there is none. A
// merged run's folder belongs to the results that it came from.
path own_folder(const path& results, const RunRecord& run) {
  if (!run.source.empty()) return {};
  if (is_own_run_folder(results, run.folder)) return results / run.folder;
  std::error_code not_there;
  const path removed = name_of_removed(run.folder);
  const bool is_rest = run.attempt > 0 &&
                       !std::filesystem::exists(results / run.folder, not_there) &&
                       is_own_run_folder(results, removed);
  return is_rest ? results / removed : path();
}

// Returns the folders that killed prunes left of runs that have no rows anymore.
std::vector<path> find_rests(const path& results, const std::vector<RunRecord>& runs) {
  std::vector<path> rests;
  std::error_code not_there;
  for (const auto& experiment : std::filesystem::directory_iterator(results / "runs", not_there)) {
    for (const auto& run : std::filesystem::directory_iterator(experiment.path(), not_there)) {
      const std::string name = run.path().filename();
      const bool is_rest = name.starts_with('.') && name.ends_with(".pruned") &&
                           is_own_run_folder(results, run.path().lexically_relative(results));
      if (is_rest) rests.push_back(run.path());
    }
  }
  std::erase_if(rests, [&](const path& rest) {
    return std::ranges::any_of(
        runs, [&](const RunRecord& run) { return own_folder(results, run) == rest; });
  });
  return rests;
}

// Sets kept_for of each item that another run reads, if this run stays.
void find_keepers(const NamedFolders& named, std::vector<PruneItem>& items) {
  std::set<int64_t> going;
  for (const PruneItem& item : items) {
    if (item.run && !item.checkpoint_step) going.insert(item.run->id);
  }
  const auto is_newly_kept = [&](PruneItem& item) {
    if (item.kept_for || item.folder.empty()) return false;
    for (const InputOfRun& input : named.inputs_in(item.folder)) {
      if (going.contains(input.run.id)) continue;
      item.kept_for = input;
      if (item.run) going.erase(item.run->id);
      return true;
    }
    return false;
  };
  while (std::ranges::any_of(items, is_newly_kept)) {  // a run that is kept may need another item
  }
}

RunPaths run_of_checkpoint(const PruneItem& item) {
  return RunPaths(item.folder.parent_path().parent_path());
}

// Returns the folder's name while the item is being removed.
path name_of_removed(const PruneItem& item) {
  if (item.checkpoint_step) {
    return checkpoint_folder(run_of_checkpoint(item), *item.checkpoint_step,
                             CheckpointFolder::State::kPartial);
  }
  const bool is_rest = !item.run || item.folder.filename() != item.run->folder.filename();
  return is_rest ? item.folder : name_of_removed(item.folder);
}

// Removes the folder with its contents. Another process may be removing it as well.
void remove_folder(const path& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (!error || error == std::errc::no_such_file_or_directory) return;
  throw std::system_error(error, folder.string() + " cannot be removed");
}

// Returns the items, without their sizes.
std::vector<PruneItem> find_items(const Store& store, const path& results, const PruneWish& wish) {
  const NamedFolders named(store, results);
  const std::vector<RunRecord> runs = store.runs();
  std::vector<RunRecord> wanted = runs;
  std::erase_if(wanted, [&](const RunRecord& run) { return !is_wanted(store, run, wish); });
  std::set<int64_t> going;
  for (const RunRecord& run : wanted) going.insert(run.id);
  std::vector<PruneItem> items;
  for (const RunRecord& run : wanted) {
    path folder = own_folder(results, run);
    const std::set<int64_t> itself{run.id};
    const bool is_of_another =
        !folder.empty() && named.is_of_run(folder, wish.checkpoints ? itself : going);
    if (is_of_another) folder.clear();  // it stays
    if (!wish.checkpoints) {
      items.push_back({.run = run, .folder = folder});
      continue;
    }
    if (folder.empty()) continue;
    for (const CheckpointFolder& found : prunable_checkpoints(RunPaths(folder), wish.keep_last)) {
      items.push_back({.run = run, .checkpoint_step = found.step, .folder = found.folder});
    }
  }
  for (const path& rest : find_rests(results, runs)) items.push_back({.folder = rest});
  find_keepers(named, items);
  return items;
}

// Removes items one after the other.
class Removal {
 public:
  Removal(Store& store, const path& results, const PruneWish& wish)
      : store_(store), results_(results), wish_(wish) {}

  // Removes the item's rows and its folder. Returns false if the item is in use now.
  bool remove(PruneItem& item) {
    if (item.run && !forget(item)) return false;
    if (item.folder.empty()) return true;
    remove_folder(item.folder);
    if (!item.checkpoint_step) emptied_.insert(item.folder.parent_path());
    return true;
  }

  // Empties the folder of an item after its rows could not be removed because the disk is full. The
  // empty folder stays until the rows are gone, so the next call can find it.
  static void make_room_with(const PruneItem& item) {
    if (item.folder.empty() || item.folder != name_of_removed(item)) return;
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator(item.folder, gone)) {
      remove_folder(entry.path());
    }
  }

  // Removes the folders of experiments that have no run left. This asks the database, because a run
  // is recorded before it has a folder.
  void remove_empty_folders() {
    if (emptied_.empty()) return;
    const Store::Batch nobody_plans(store_);
    const NamedFolders named(store_, results_);
    std::error_code not_empty;
    for (const path& experiment : emptied_) {
      if (!named.is_of_run(experiment, {})) std::filesystem::remove(experiment, not_empty);
    }
  }

 private:
  // Renames the folder and deletes the rows in one transaction, so nobody can plan a run meanwhile.
  bool forget(PruneItem& item) {
    Store::Batch nobody_plans(store_);
    if (!is_prunable(item)) return false;
    if (!item.folder.empty()) rename_folder(item);
    if (item.checkpoint_step) {
      forget_checkpoint(item);
    } else {
      store_.delete_run(item.run->id);
    }
    nobody_plans.commit();
    return true;
  }

  // True if the item would be found now. Others may have planned runs since it was found.
  bool is_prunable(const PruneItem& item) {
    if (const int64_t version = store_.version(); version != version_) {
      version_ = version;
      prunable_ = find_items(store_, results_, wish_);
    }
    return std::ranges::any_of(prunable_, [&](const PruneItem& now) {
      return now.run && now.run->id == item.run->id && !now.kept_for &&
             (now.folder == item.folder || name_of_removed(now) == item.folder);
    });
  }

  // Deletes the row of a checkpoint, unless another folder holds a checkpoint of this step.
  void forget_checkpoint(const PruneItem& item) {
    using enum CheckpointFolder::State;
    const RunPaths paths = run_of_checkpoint(item);
    for (const auto state : {kComplete, kReplaced}) {
      if (std::filesystem::exists(checkpoint_folder(paths, *item.checkpoint_step, state))) return;
    }
    store_.delete_checkpoint(
        item.run->id, paths.checkpoint(*item.checkpoint_step).lexically_relative(paths.folder()));
  }

  static void rename_folder(PruneItem& item) {
    const path name = name_of_removed(item);
    if (item.folder == name) return;
    remove_folder(name);  // left by an earlier call or a trainer
    std::error_code error;
    std::filesystem::rename(item.folder, name, error);
    if (error && error != std::errc::no_such_file_or_directory) {
      throw std::system_error(error, item.folder.string() + " cannot be removed");
    }
    item.folder = name;
    if (error) return;
    // The new name must be on the disk before the rows are deleted.
    if (const int failure = sync_names(name.parent_path()); failure != 0) {
      throw std::system_error(failure, std::generic_category(),
                              name.string() + " cannot be removed");
    }
  }

  Store& store_;
  const path& results_;
  const PruneWish& wish_;
  int64_t version_ = -1;
  std::vector<PruneItem> prunable_;
  std::set<path> emptied_;  // folders of experiments that runs were removed from
};

}  // namespace

std::vector<PruneItem> find_prunable(const Store& store, const path& results,
                                     const PruneWish& wish) {
  std::vector<PruneItem> items = find_items(store, results, wish);
  for (PruneItem& item : items) item.size_bytes = size_of(item.folder);
  return items;
}

std::vector<PruneItem> prune(Store& store, const path& results, const PruneWish& wish,
                             std::vector<PruneItem> items) {
  std::vector<PruneItem> left_alone;
  Removal removal(store, results, wish);
  // The rests of runs come first: their removal makes room and needs none in the database.
  std::ranges::stable_partition(items, [](const PruneItem& item) { return !item.run; });
  for (const bool is_last_try : {false, true}) {
    for (PruneItem& item : std::exchange(items, {})) {
      try {
        if (!removal.remove(item)) left_alone.push_back(item);
      } catch (const std::exception& error) {
        if (is_last_try || !says_disk_full(error)) throw;
        Removal::make_room_with(item);
        items.push_back(std::move(item));
      }
    }
  }
  removal.remove_empty_folders();
  return left_alone;
}

}  // namespace fsdp
