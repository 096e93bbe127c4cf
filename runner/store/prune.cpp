// Removes folders of runs. A folder gets a hidden name first, so no run is there in part.
#include "runner/store/prune.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "base/files/input_file.h"
#include "base/text/foreign_json.h"
#include "contract/record/run_paths.h"
#include "runner/store/results_unavailable.h"
#include "runner/store/run_files.h"

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

// Returns the folders that killed prunes left.
std::vector<path> find_rests(const path& results) {
  std::vector<path> rests;
  std::error_code not_there;
  for (const ResultsPart& part : parts_of(results)) {
    const path runs = results / part.folder / "runs";
    for (const path& list : visible_names(runs)) {
      for (const auto& run : std::filesystem::directory_iterator(runs / list, not_there)) {
        const std::string name = run.path().filename();
        const bool is_rest = name.starts_with('.') && name.ends_with(".pruned") &&
                             is_own_run_folder(results, run.path().lexically_relative(results));
        if (is_rest) rests.push_back(run.path());
      }
    }
  }
  return rests;
}

// Sets kept_for of each item that another run reads, if this run stays.
void find_keepers(const Store& store, std::vector<PruneItem>& items) {
  const NamedFolders named(store);
  std::set<int64_t> going;
  for (const PruneItem& item : items) {
    if (item.run && !item.checkpoint_step && !item.folder.empty()) going.insert(item.run->id);
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

// Returns the folder's name while the item is being removed. No run has a folder of such a name.
path name_of_removed(const PruneItem& item) {
  if (!item.run) return item.folder;
  if (!item.checkpoint_step) {
    return item.folder.parent_path() / ('.' + item.folder.filename().string() + ".pruned");
  }
  const RunPaths paths(item.folder.parent_path().parent_path());
  return checkpoint_folder(paths, *item.checkpoint_step, CheckpointFolder::State::kPartial);
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
  std::vector<PruneItem> items;
  std::error_code gone;
  for (const RunRecord& run : store.runs()) {
    if (!is_wanted(store, run, wish)) continue;
    if (!std::filesystem::exists(results / run.folder, gone)) continue;  // the next sync forgets it
    const path folder = is_own_run_folder(results, run.folder) ? results / run.folder : path();
    if (!wish.checkpoints) {
      items.push_back({.run = run, .folder = folder});
    } else if (!folder.empty()) {
      for (const CheckpointFolder& found : prunable_checkpoints(RunPaths(folder), wish.keep_last)) {
        items.push_back({.run = run, .checkpoint_step = found.step, .folder = found.folder});
      }
    }
  }
  for (const path& rest : find_rests(results)) items.push_back({.folder = rest});
  find_keepers(store, items);
  return items;
}

// Hides all items, then removes them. Until all are gone, a hidden folder is left for the next
// call.
class Removal {
 public:
  Removal(Store& store, const path& results, const PruneWish& wish)
      : store_(store), results_(results), wish_(wish) {}

  // Returns false if the item is in use now.
  bool hide(PruneItem& item) {
    if (item.run && !rename(item)) return false;
    hidden_.push_back(item);
    return true;
  }

  void finish() {
    const bool is_known = forget();
    for (const PruneItem& item : hidden_) remove_folder(item.folder);
    if (!is_known) forget();  // the disk was full
    remove_empty_folders();
  }

 private:
  // Gives the folder a name that no run has. Nobody plans a run meanwhile that could read it.
  bool rename(PruneItem& item) {
    const Store::Batch nobody_plans(store_);
    if (!is_prunable(item)) return false;
    const path name = name_of_removed(item);
    if (item.folder == name) return true;
    remove_folder(name);  // left by an earlier call or a trainer
    std::error_code error;
    std::filesystem::rename(item.folder, name, error);
    if (error && error != std::errc::no_such_file_or_directory) {
      throw std::system_error(error, item.folder.string() + " cannot be removed");
    }
    item.folder = name;
    return true;
  }

  // Tells the index, and removes lists without a run. Returns false if the index cannot be written.
  bool forget() try {
    for (const PruneItem& item : hidden_) {
      if (item.run && !item.checkpoint_step) store_.forget_removed(*item.run);
    }
    Store::Batch nobody_plans(store_);
    for (const path& folder : folders_of_lists()) {
      if (!visible_names(folder).empty()) continue;
      const path lists = lists_folder(folder.parent_path().parent_path());
      if (std::filesystem::is_symlink(lists)) continue;
      std::filesystem::remove(lists / (folder.filename().string() + ".json"));
    }
    nobody_plans.commit();
    return true;
  } catch (const std::exception& error) {
    if (!may_pass(error)) throw;
    return false;
  }

  // Removes the folders of lists, and of merged results, that have no run left.
  void remove_empty_folders() const {
    std::error_code not_empty;
    for (const path& list : folders_of_lists()) std::filesystem::remove(list, not_empty);
    std::vector<ResultsPart> parts = parts_of(results_);
    std::ranges::reverse(parts);  // those that were merged into another one come before it
    for (const ResultsPart& merged : parts) {
      const path part = results_ / merged.folder;
      const bool has_runs = !run_folders(part).empty() || parts_of(part).size() > 1;
      if (merged.folder.empty() || has_runs || !is_emptied(part)) continue;
      std::filesystem::remove_all(part, not_empty);
      std::filesystem::remove(part.parent_path(), not_empty);
    }
  }

  // True if all runs of the part, or of one that was merged into it, were removed here.
  bool is_emptied(const path& part) const {
    return std::ranges::any_of(hidden_, [&](const PruneItem& item) {
      return !item.checkpoint_step && item.folder.native().starts_with(part.native() + '/');
    });
  }

  std::set<path> folders_of_lists() const {
    std::set<path> folders;
    for (const PruneItem& item : hidden_) {
      if (!item.checkpoint_step) folders.insert(item.folder.parent_path());
    }
    return folders;
  }

  // True if the item would be found now. Others may have planned runs since it was found.
  bool is_prunable(const PruneItem& item) {
    if (const int64_t version = store_.version(); version != version_) {
      version_ = version;
      prunable_ = find_items(store_, results_, wish_);
    }
    return std::ranges::any_of(prunable_, [&](const PruneItem& now) {
      return now.run && now.run->id == item.run->id && !now.kept_for && now.folder == item.folder;
    });
  }

  Store& store_;
  const path& results_;
  const PruneWish& wish_;
  int64_t version_ = -1;
  std::vector<PruneItem> prunable_;
  std::vector<PruneItem> hidden_;
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
  for (PruneItem& item : items) {
    if (item.folder.empty() || !removal.hide(item)) left_alone.push_back(item);
  }
  removal.finish();
  return left_alone;
}

}  // namespace fsdp
