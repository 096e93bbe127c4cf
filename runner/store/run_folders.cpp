#include "runner/store/run_folders.h"

#include <algorithm>
#include <iterator>
#include <map>
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

// Returns the first part of the path that is a link; empty if there is none.
path first_link(const path& place) {
  path part;
  std::error_code not_there;
  for (const path& name : place) {
    part /= name;
    if (std::filesystem::is_symlink(part, not_there)) return part;
  }
  return {};
}

// Adds the names of the file and of every link that leads to it.
void add_names(std::set<std::string>& names, path place) {
  constexpr int kMostLinks = 40;  // as in Linux
  std::error_code gone;
  place = std::filesystem::absolute(place).lexically_normal();
  for (int links = 0; links < kMostLinks; ++links) {
    const path link = first_link(place);
    names.insert(((link.empty() ? place : link) / "").string());
    if (link.empty()) return;
    const path target = std::filesystem::read_symlink(link, gone);
    place = (link.parent_path() / target / place.lexically_relative(link)).lexically_normal();
  }
}

// Returns the names of an input. If it is a folder, it may consist of links to files elsewhere.
std::set<std::string> names_of_input(const path& input) {
  std::set<std::string> names;
  add_names(names, input);
  std::error_code no_folder;
  for (const auto& entry : std::filesystem::directory_iterator(input, no_folder)) {
    if (entry.is_symlink(no_folder)) add_names(names, entry.path());
  }
  return names;
}

}  // namespace

bool is_run_folder(const path& folder) {
  return std::distance(folder.begin(), folder.end()) == 3 && *folder.begin() == "runs" &&
         std::ranges::none_of(
             folder, [](const path& name) { return name.empty() || name == "." || name == ".."; });
}

bool is_own_run_folder(const path& results, const path& folder) {
  const path runs = folder.parent_path().parent_path();
  const path part = runs.parent_path();
  if (folder.is_absolute() || !is_run_folder(folder.lexically_relative(part))) return false;
  std::error_code error;
  const path place = part.empty() ? std::filesystem::canonical(results / runs, error)
                                  : std::filesystem::canonical(results, error) / runs;
  if (error) return false;
  const path found = std::filesystem::canonical(results / folder, error);
  return !error && found == place / folder.lexically_relative(runs);
}

NamedFolders::NamedFolders(const Store& store) {
  std::map<path, std::set<std::string>> known;  // many runs read the same
  for (InputOfRun& input : store.inputs_of_runs()) {
    const auto [names, is_new] = known.try_emplace(input.place);
    if (is_new) names->second = names_of_input(input.place);
    inputs_.emplace_back(names->second, std::move(input));
  }
}

std::vector<InputOfRun> NamedFolders::inputs_in(const path& folder) const {
  const std::string name = name_of_folder(folder);
  std::vector<InputOfRun> found;
  for (const auto& [names, input] : inputs_) {
    const auto is_in_folder = [&](const std::string& other) { return other.starts_with(name); };
    if (std::ranges::any_of(names, is_in_folder)) found.push_back(input);
  }
  return found;
}

}  // namespace fsdp
