#include "runner/store/folder_removal.h"

#include <string>
#include <string_view>
#include <system_error>

#include "contract/files/new_file.h"
#include "runner/store/run_folders.h"

namespace fsdp {
namespace {

using std::filesystem::path;

constexpr const char* kMark = ".pruned";
constexpr const char* kNewMark = ".pruned.new";
constexpr const char* kMarkBeforeRows = ".rows.pruned";

// True for the names that take_away gives.
bool is_taken(const path& folder) {
  const std::string name = folder.filename();
  return name.starts_with('.') && name.ends_with(kMark);
}

}  // namespace

void mark_for_removal(const path& folder) {
  try {
    NewFile(folder / kMark, folder / kNewMark).publish();
  } catch (const std::system_error& error) {
    throw std::system_error(error.code(),
                            (folder / kMark).string() + " cannot be written; the run stays");
  }
}

bool is_being_removed(const path& folder) {
  std::error_code not_there;
  return is_taken(folder) || std::filesystem::exists(folder / kMark, not_there) ||
         (std::filesystem::is_directory(folder, not_there) &&
          std::filesystem::is_empty(folder, not_there));
}

std::optional<path> renamed(const path& folder, const path& name) {
  std::error_code error;
  std::filesystem::rename(folder, name, error);
  if (error == std::errc::no_such_file_or_directory) return std::nullopt;
  if (error) throw std::system_error(error, folder.string() + " cannot be removed");
  return name;
}

std::optional<path> take_away(const path& folder) {
  if (is_taken(folder)) return folder;
  const std::string name = '.' + folder.filename().string();
  path away = folder.parent_path() / (name + kMark);
  for (int number = 2; std::filesystem::exists(away); ++number) {
    away.replace_filename(name + '~' + std::to_string(number) + kMark);
  }
  return renamed(folder, away);
}

std::optional<path> take_away_before_rows(const path& folder) {
  return renamed(folder,
                 folder.parent_path() / ('.' + folder.filename().string() + kMarkBeforeRows));
}

std::optional<path> taken_before_rows(const path& folder) {
  const std::string name = folder.filename();
  if (!name.starts_with('.') || !name.ends_with(kMarkBeforeRows)) return std::nullopt;
  const size_t size = name.size() - 1 - std::string_view(kMarkBeforeRows).size();
  return folder.parent_path() / name.substr(1, size);
}

void remove_contents(const path& folder) {
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(folder, gone)) {
    remove_folder(entry.path());
  }
}

void remove_folder(const path& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (!error || error == std::errc::no_such_file_or_directory) return;
  throw std::system_error(error, folder.string() + " cannot be removed");
}

void finish_removal(const Store& store, const path& results, const RunRecord& run) {
  const path folder = results / run.folder;
  std::error_code not_there;
  if (!std::filesystem::exists(folder / kMark, not_there)) return;
  const bool is_left_over =
      run.attempt == 0 && NamedFolders(store, results).resumed_from(folder).empty();
  if (!is_left_over) {
    std::filesystem::remove(folder / kMark);
    return;
  }
  const auto taken = take_away(folder);
  try {
    if (taken) remove_folder(*taken);
  } catch (const std::system_error&) {  // the next prune does
  }
}

}  // namespace fsdp
