#include "runner/store/run_folders.h"

#include <algorithm>
#include <iterator>
#include <system_error>

namespace fsdp {

using std::filesystem::path;

namespace {

// Returns the absolute path with '/' at its end, so the names of all folders in it begin with its
// name.
std::string name_of_folder(const path& folder) {
  std::error_code error;  // also if a part of the path is too long for a file name
  const path absolute = std::filesystem::absolute(folder);
  const path place = std::filesystem::weakly_canonical(absolute, error);
  return ((error ? absolute.lexically_normal() : place) / "").string();
}

}  // namespace

bool is_run_folder(const path& folder) {
  return std::distance(folder.begin(), folder.end()) == 3 && *folder.begin() == "runs" &&
         std::ranges::none_of(
             folder, [](const path& name) { return name.empty() || name == "." || name == ".."; });
}

bool is_own_run_folder(const path& results, const path& folder) {
  if (!is_run_folder(folder)) return false;
  std::error_code error;
  const path runs = std::filesystem::canonical(results / "runs", error);
  if (error) return false;
  const path found = std::filesystem::canonical(results / folder, error);
  return !error && found == runs / folder.lexically_relative("runs");
}

NamedFolders::NamedFolders(const Store& store, const path& results) {
  for (const RunRecord& run : store.runs()) {
    folders_.emplace_back(name_of_folder(results / run.folder), run.id);
  }
  for (const auto& [run, checkpoint] : store.resumed_checkpoints()) {
    checkpoints_.emplace_back(name_of_folder(checkpoint), ResumedFrom{run, checkpoint});
  }
}

bool NamedFolders::is_of_run(const path& folder, const std::set<int64_t>& but) const {
  const std::string name = name_of_folder(folder);
  return std::ranges::any_of(folders_, [&](const auto& of_run) {
    const auto& [other, run] = of_run;
    return (other.starts_with(name) || name.starts_with(other)) && !but.contains(run);
  });
}

std::vector<ResumedFrom> NamedFolders::resumed_from(const path& folder) const {
  const std::string name = name_of_folder(folder);
  std::vector<ResumedFrom> found;
  for (const auto& [checkpoint, resumed] : checkpoints_) {
    if (checkpoint.starts_with(name)) found.push_back(resumed);
  }
  return found;
}

}  // namespace fsdp
