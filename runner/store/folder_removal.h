#pragma once

#include <filesystem>
#include <optional>

#include "runner/store/store.h"

// Removes a run's folder in steps. It marks the folder, deletes the run's rows, renames the folder
// to a name that no run has, and deletes its contents. A full disk has no room for mark and rows.
// Then the folder gets a name with its old name in it, and contents, rows and the empty folder go
// in this order. If the process is killed in between, the next call finds the rest.
namespace fsdp {

void mark_for_removal(const std::filesystem::path& folder);
// True if the folder has the mark, or is the rest of a folder that had it.
bool is_being_removed(const std::filesystem::path& folder);

// Renames the folder, and returns the new name; nullopt if the folder is gone.
std::optional<std::filesystem::path> renamed(const std::filesystem::path& folder,
                                             const std::filesystem::path& name);
// Does the same with a name beside the folder that no run has.
std::optional<std::filesystem::path> take_away(const std::filesystem::path& folder);
// Does the same before the run's rows are deleted; the new name contains the old one.
std::optional<std::filesystem::path> take_away_before_rows(const std::filesystem::path& folder);
// Returns the folder's old name; nullopt if it was not taken away before the run's rows.
std::optional<std::filesystem::path> taken_before_rows(const std::filesystem::path& folder);
void remove_contents(const std::filesystem::path& folder);
// Removes the folder with its contents. Another process may be removing it as well.
void remove_folder(const std::filesystem::path& folder);

// Finishes a removal before a run begins. If the run has no attempt and nobody resumes from its
// marked folder, the folder is an earlier run's and goes. Otherwise only the mark goes.
void finish_removal(const Store& store, const std::filesystem::path& results, const RunRecord& run);

}  // namespace fsdp
