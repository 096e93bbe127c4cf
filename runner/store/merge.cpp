// Merges other results folders by copies of their files. A copy is made and checked under a hidden
// name, and appears as a whole.
#include "runner/store/merge.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <set>
#include <system_error>

#include "base/files/file_lock.h"
#include "base/text/config_error.h"
#include "runner/store/copy_runs.h"
#include "runner/store/results_database.h"
#include "runner/store/run_files.h"
#include "runner/store/store.h"

namespace fsdp {
namespace {

using std::filesystem::path;

const WarnOfFile kRefuse = [](const std::string& line) { throw std::runtime_error(line); };
const WarnOfFile kIgnore = [](const std::string&) {};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t place = text.find(from);
  return place == text.npos ? text : text.replace(place, from.size(), to);
}

// Keeps the runs of an earlier merge that the source no longer has. They leave their lists.
void keep_what_is_gone(const path& before, const path& copy) {
  for (const ResultsPart& part : parts_of(before)) {
    for (const path& name : visible_names(lists_folder(before / part.folder))) {
      const path file = lists_folder(part.folder) / name;
      const bool is_known = std::filesystem::exists(copy / file);
      auto list = read_list((is_known ? copy : before) / file, kIgnore);
      if (!list || list_file("", list->name) != "lists" / name) continue;
      std::erase_if(list->runs, [&](const path& folder) {
        return !std::filesystem::exists(copy / part.folder / folder);
      });
      std::filesystem::create_directories(copy / part.folder);
      write_list(copy / part.folder, *list);
    }
  }
  copy_results(before, copy);
}

// Returns the folder that merged results came from.
path origin_of(const path& merged) {
  const auto from = read_record<MergedFrom>(source_file(merged), kIgnore);
  return from ? from->folder : path();
}

void check_attempts(const RunPaths& run) {
  read_status(run, kRefuse);
  for (const int attempt : attempts_with_folder(run)) {
    read_record<AttemptStart>(run.launch_record(attempt), kRefuse);
    read_verdict(run, attempt, kRefuse);
  }
}

// Lets one merge at a time into the results. Creates their folder.
class OneMerge {
 public:
  explicit OneMerge(const path& results) {
    const auto merged = std::filesystem::symlink_status(results / "merged");
    if (std::filesystem::exists(merged) && !std::filesystem::is_directory(merged)) {
      throw ConfigError((results / "merged").string(), "", "is no folder; move it away");
    }
    std::filesystem::create_directories(results);
    folder_ = open(results.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_ < 0) throw std::system_error(errno, std::generic_category(), results.string());
    if (try_to_lock(folder_, results.string())) return;
    close(folder_);
    throw ConfigError(results.string(), "",
                      "another fsdp-run merges into this folder; call again when it has ended");
  }
  ~OneMerge() { close(folder_); }
  OneMerge(const OneMerge&) = delete;
  OneMerge& operator=(const OneMerge&) = delete;

  // Waits until the copies are on the disk.
  void sync() const {
    if (syncfs(folder_) != 0) throw std::system_error(errno, std::generic_category(), "syncfs");
  }

 private:
  int folder_;
};

// One source, while it is merged.
class Merge {
 public:
  Merge(const OneMerge& lock, const path& results, const MergeSource& source)
      : lock_(lock),
        results_(results),
        source_(source),
        place_(results / "merged" / source.name),
        copy_(results / "merged" / ('.' + source.name + ".new")),
        before_(results / "merged" / ('.' + source.name + ".old")) {}
  ~Merge() {
    std::error_code ignored;
    std::filesystem::remove_all(copy_, ignored);
    std::filesystem::remove(copy_.parent_path(), ignored);  // if it is empty
  }
  Merge(const Merge&) = delete;
  Merge& operator=(const Merge&) = delete;

  MergedSource run() {
    require_other_folders();
    recover();
    std::filesystem::remove_all(copy_);
    has_run_files(source_.results) ? copy_results(source_.results, copy_)
                                   : copy_old_results(source_.results, copy_);
    const MergedSource merged = check_runs();
    if (merged.runs == 0 && !std::filesystem::exists(place_)) {
      throw std::runtime_error("holds no runs");
    }
    std::filesystem::create_directories(copy_);
    make_folder(results_, "lists");
    write_record(source_file(copy_), MergedFrom{std::filesystem::canonical(source_.results)});
    require_no_conflict();
    keep_what_is_gone(place_, copy_);
    lock_.sync();  // runs that the source no longer has are in the copy only
    put_in_place();
    return merged;
  }

 private:
  // Refuses a source that overlaps with the results, and a place that merge did not fill.
  void require_other_folders() const {
    std::error_code not_there;
    if (std::filesystem::equivalent(source_.results, results_, not_there)) {
      throw std::runtime_error("is the folder to merge into; name another one with --results");
    }
    const path from = std::filesystem::weakly_canonical(source_.results) / "";
    const path to = std::filesystem::weakly_canonical(results_) / "";
    if (from.native().starts_with(to.native()) || to.native().starts_with(from.native())) {
      throw std::runtime_error(
          fmt::format("{} and {} are one within the other; merge into another folder",
                      source_.results.string(), results_.string()));
    }
    const auto type = std::filesystem::symlink_status(place_, not_there).type();
    if (type == std::filesystem::file_type::not_found) return;
    if (type != std::filesystem::file_type::directory || origin_of(place_).empty()) {
      throw std::runtime_error(fmt::format(
          "{} is there, and is not what merge makes; move it away, or give the source another "
          "name: NAME={}",
          place_.string(), source_.results.string()));
    }
  }

  // Takes back what a killed merge moved away.
  void recover() const {
    if (!std::filesystem::exists(before_)) return;
    if (!std::filesystem::exists(place_)) std::filesystem::rename(before_, place_);
    std::filesystem::remove_all(before_);
  }

  // Refuses a record that fsdp-run does not write, and an experiment that has the name of one of
  // the results' own. Counts the runs.
  MergedSource check_runs() const try {
    MergedSource found;
    for (const ResultsPart& part : parts_of(copy_, {.source = source_.name})) {
      const path results = copy_ / part.folder;
      for (const path& folder : run_folders(results)) {
        if (!read_run(results, folder, kRefuse)) continue;
        check_attempts(RunPaths(results / folder));
        ++found.runs;
        found.new_runs += std::filesystem::exists(place_ / part.folder / folder) ? 0 : 1;
      }
      for (const path& file : visible_names(lists_folder(results))) {
        const auto list = read_list(lists_folder(results) / file, kRefuse);
        if (!list) continue;
        ++found.experiments;
        const std::string name = name_here(part.source, list->name);
        if (!std::filesystem::exists(list_file(results_, name))) continue;
        throw std::runtime_error(fmt::format(
            "{} has an experiment '{}' of its own; give the source another name: NAME={}",
            results_.string(), name, source_.results.string()));
      }
    }
    return found;
  } catch (const std::exception& error) {
    throw std::runtime_error(replaced(error.what(), copy_.string(), source_.results.string()));
  }

  // Refuses a copy that would replace the runs of another source, or have runs twice.
  void require_no_conflict() const {
    std::set<path> origins;
    for (const ResultsPart& part : parts_of(copy_)) origins.insert(origin_of(copy_ / part.folder));
    if (origins.contains(std::filesystem::canonical(results_))) {
      throw std::runtime_error("has the runs of " + results_.string() +
                               " itself, and they would be there twice; merge into another folder");
    }
    for (const ResultsPart& part : parts_of(results_)) {
      const path merged = results_ / part.folder, origin = origin_of(merged);
      if (origin.empty()) continue;
      if (merged == place_ && origin != origin_of(copy_)) {
        throw std::runtime_error(fmt::format(
            "{} has runs of '{}' from another place, {}; give the source another name: NAME={}; "
            "or, if it is the same source that was moved, remove {} first",
            results_.string(), source_.name, origin.string(), source_.results.string(),
            place_.string()));
      }
      const bool is_of_another = !(merged / "").native().starts_with((place_ / "").native());
      if (is_of_another && origins.contains(origin)) {
        throw std::runtime_error(
            fmt::format("{} has the runs of {} already, as '{}', and would have them twice; leave "
                        "{} out, or remove {} first",
                        results_.string(), origin.string(), part.source, source_.results.string(),
                        merged.string()));
      }
    }
  }

  // Exchanges the copy and an earlier one, in one step unless the file system cannot.
  void put_in_place() const {
    const bool is_exchanged =
        renameat2(AT_FDCWD, copy_.c_str(), AT_FDCWD, place_.c_str(), RENAME_EXCHANGE) == 0;
    if (is_exchanged) return;
    std::error_code is_first;
    std::filesystem::rename(place_, before_, is_first);
    std::filesystem::rename(copy_, place_);
    std::filesystem::remove_all(before_);
  }

  const OneMerge& lock_;
  const path& results_;
  const MergeSource& source_;
  path place_, copy_, before_;
};

}  // namespace

std::vector<MergedSource> merge_results(const path& results, std::span<const MergeSource> sources,
                                        const WarnOfFile& warn) {
  std::error_code not_there;
  const bool was_there = std::filesystem::exists(results, not_there);
  const OneMerge lock(results);
  if (std::filesystem::exists(results / "results.sqlite", not_there)) {
    Store(results).sync();  // writes the files of runs of an earlier version
  }
  std::vector<MergedSource> merged;
  bool has_merged = false;
  for (const MergeSource& source : sources) {
    MergedSource& outcome = merged.emplace_back();
    try {
      outcome = Merge(lock, results, source).run();
      has_merged = true;
    } catch (const std::system_error&) {
      throw;
    } catch (const std::exception& error) {
      const std::string reason =
          replaced(error.what(), ", or choose another folder with --results", "");
      const bool is_named = reason.find(source.results.string()) != reason.npos;
      outcome.skipped = is_named ? reason : source.results.string() + ": " + reason;
    }
  }
  if (has_merged) Store(results, StoreUse::kCreate, warn).sync();
  if (!was_there) std::filesystem::remove(results, not_there);  // if it is empty
  return merged;
}

}  // namespace fsdp
