#include "runner/store/prune.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <system_error>

#include "runner/store/run_folders.h"
#include "trainer/contract/foreign_json.h"
#include "trainer/contract/input_file.h"
#include "trainer/contract/run_paths.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// In a run's folder: the run is being removed.
constexpr const char* kMark = ".pruned";
// The trainer takes a checkpoint of this name for one that is not whole, and removes it.
constexpr const char* kPartial = ".partial";

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

// The folders of all runs, of these results and of others, with links followed.
class NamedFolders {
 public:
  NamedFolders(const path& results, const std::vector<RunRecord>& runs) : results_(results) {
    for (const RunRecord& run : runs) folders_.emplace(name_of_folder(run.folder), run.id);
  }

  // Whether a run that is not in `but` has the folder, one in it, or one that holds it.
  bool is_named(const path& folder, const std::set<int64_t>& but) const {
    const std::string name = name_of_folder(folder);
    const auto is_other = [&](const auto& named) {
      return named.first != name || !but.contains(named.second);
    };
    for (auto in_it = folders_.lower_bound(name);
         in_it != folders_.end() && in_it->first.starts_with(name); ++in_it) {
      if (is_other(*in_it)) return true;
    }
    for (size_t end = name.find('/'); end + 1 < name.size(); end = name.find('/', end + 1)) {
      if (folders_.contains(name.substr(0, end + 1))) return true;
    }
    return false;
  }

 private:
  std::string name_of_folder(const path& folder) const {
    return std::filesystem::weakly_canonical(results_ / folder).string() + '/';
  }

  const path& results_;
  std::multimap<std::string, int64_t> folders_;
};

// A merged run's folder belongs to the results it came from.
bool has_own_folder(const path& results, const RunRecord& run) {
  return run.source.empty() && is_own_run_folder(results, run.folder);
}

struct Checkpoint {
  int64_t step = 0;
  path folder;
  std::optional<double> validation_loss;
  bool is_whole = false;
};

std::optional<int64_t> step_in(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  if (name.ends_with(kPartial)) name.remove_suffix(std::string_view(kPartial).size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return step;
}

std::optional<double> validation_loss_of(const path& checkpoint) {
  try {
    const MappedFile file(checkpoint / kTrainerStateName);
    const auto state = parse_foreign_json(file.text(), kLargestTrainerStateBytes);
    const auto loss = state.at("validation_loss");
    return loss.is_number() ? std::optional(loss.get<double>()) : std::nullopt;
  } catch (const std::exception&) {  // damaged, or no checkpoint: of no known loss
    return std::nullopt;
  }
}

// Those of most steps first. A link may lead to a checkpoint of another run.
std::vector<Checkpoint> checkpoints_of(const RunPaths& paths) {
  std::vector<Checkpoint> found;
  std::error_code not_there;
  if (std::filesystem::is_symlink(paths.checkpoints(), not_there)) return {};
  for (const auto& entry : std::filesystem::directory_iterator(paths.checkpoints(), not_there)) {
    const auto step = step_in(entry.path().filename().string());
    if (!step || entry.is_symlink(not_there)) continue;
    found.push_back({.step = *step,
                     .folder = entry.path(),
                     .validation_loss = validation_loss_of(entry.path()),
                     .is_whole = entry.path().extension() != kPartial});
  }
  std::ranges::sort(found, std::greater(), &Checkpoint::step);
  return found;
}

// What is left of them when those that the user keeps are taken away.
std::vector<Checkpoint> without_kept(std::vector<Checkpoint> checkpoints, const PruneWish& wish) {
  std::set<path> kept;
  for (const Checkpoint& checkpoint : checkpoints) {
    if (std::ssize(kept) == wish.keep_last) break;
    if (checkpoint.is_whole) kept.insert(checkpoint.folder);
  }
  std::vector<Checkpoint> evaluated;
  std::ranges::copy_if(checkpoints, std::back_inserter(evaluated),
                       [](const Checkpoint& checkpoint) {
                         return checkpoint.is_whole && checkpoint.validation_loss.has_value();
                       });
  std::ranges::stable_sort(evaluated, {}, &Checkpoint::validation_loss);
  for (int64_t i = 0; i < std::min(wish.keep_best, static_cast<int64_t>(evaluated.size())); ++i) {
    kept.insert(evaluated[static_cast<size_t>(i)].folder);
  }
  std::erase_if(checkpoints,
                [&](const Checkpoint& checkpoint) { return kept.contains(checkpoint.folder); });
  return checkpoints;
}

bool is_wanted(const Store& store, const RunRecord& run, const PruneWish& wish) {
  if (!wish.runs.contains(run.id) || (wish.not_current && run.current)) return false;
  const std::vector<AttemptRecord> attempts = store.attempts(run.id);
  if (std::ranges::find(attempts, RunStatus::kRunning, &AttemptRecord::status) != attempts.end()) {
    return false;
  }
  for (const JobRecord& job : store.jobs_of_run(run.id)) {
    if (!job.tasks.front().over) return false;
  }
  if (!wish.older_than_unix_ms) return true;
  // A run that was never started has no age.
  return !attempts.empty() && attempts.back().started_unix_ms < *wish.older_than_unix_ms;
}

// The mark goes last, and then the folder.
bool is_being_removed(const path& folder) {
  return std::filesystem::exists(folder / kMark) ||
         (std::filesystem::is_directory(folder) && std::filesystem::is_empty(folder));
}

// Folders of runs that the database no longer knows, because a call was killed in between.
std::vector<PruneItem> leftovers(const path& results, const NamedFolders& named) {
  std::vector<PruneItem> items;
  std::error_code not_there;
  for (const auto& experiment : std::filesystem::directory_iterator(results / "runs", not_there)) {
    for (const auto& run : std::filesystem::directory_iterator(experiment.path(), not_there)) {
      const path folder = run.path().lexically_relative(results);
      if (!is_own_run_folder(results, folder) || !is_being_removed(run.path()) ||
          named.is_named(folder, {})) {
        continue;
      }
      items.push_back({.run = std::nullopt,
                       .checkpoint_step = std::nullopt,
                       .folder = run.path(),
                       .size_bytes = size_of(run.path())});
    }
  }
  return items;
}

void remove_run_folder(const path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename() != kMark) std::filesystem::remove_all(entry.path());
  }
  std::filesystem::remove_all(folder);
  std::error_code not_empty;
  std::filesystem::remove(folder.parent_path(), not_empty);  // the experiment's
}

void mark(const path& folder) {
  std::ofstream file(folder / kMark);
  if (!file.flush()) {
    throw std::system_error(errno, std::generic_category(),
                            (folder / kMark).string() + " cannot be written; nothing was removed");
  }
}

}  // namespace

std::vector<PruneItem> find_prunable(const Store& store, const path& results,
                                     const PruneWish& wish) {
  const std::vector<RunRecord> runs = store.runs();
  const NamedFolders named(results, runs);
  std::vector<PruneItem> items;
  for (const RunRecord& run : runs) {
    if (!is_wanted(store, run, wish)) continue;
    const std::set<int64_t> itself{run.id};
    const bool has_folder = has_own_folder(results, run) &&
                            !named.is_named(run.folder, wish.checkpoints ? itself : wish.runs);
    if (!wish.checkpoints) {
      const path folder = has_folder ? results / run.folder : path();
      items.push_back({.run = run,
                       .checkpoint_step = std::nullopt,
                       .folder = folder,
                       .size_bytes = has_folder ? size_of(folder) : 0});
      continue;
    }
    if (!has_folder) continue;
    for (const Checkpoint& checkpoint :
         without_kept(checkpoints_of(RunPaths(results / run.folder)), wish)) {
      items.push_back({.run = run,
                       .checkpoint_step = checkpoint.step,
                       .folder = checkpoint.folder,
                       .size_bytes = size_of(checkpoint.folder)});
    }
  }
  std::ranges::move(leftovers(results, named), std::back_inserter(items));
  return items;
}

bool prune(Store& store, const path& results, const PruneItem& item) {
  if (!item.run) {
    remove_run_folder(item.folder);
    return true;
  }
  if (item.checkpoint_step) {
    store.delete_checkpoint(item.run->id,
                            item.folder.lexically_relative(results / item.run->folder));
    path partial = item.folder;
    if (partial.extension() != kPartial) {
      partial += kPartial;
      std::filesystem::remove_all(partial);
      std::filesystem::rename(item.folder, partial);
    }
    std::filesystem::remove_all(partial);
    return true;
  }
  // The last of the runs that share a folder takes it along.
  const bool has_folder =
      !item.folder.empty() && has_own_folder(results, *item.run) && !store.shares_folder(*item.run);
  if (has_folder) mark(item.folder);
  if (!store.delete_run(item.run->id)) {
    if (has_folder) std::filesystem::remove(item.folder / kMark);
    return false;
  }
  if (has_folder) remove_run_folder(item.folder);
  return true;
}

}  // namespace fsdp
