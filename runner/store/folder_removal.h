#pragma once

#include <filesystem>
#include <optional>

#include "runner/store/store.h"

// How a run's folder is removed: it gets a mark, the run's rows go, it gets a name that no run has,
// and its contents go. On a full disk neither mark nor rows can be written: there it gets a name
// that says whose it was, its contents go, then the rows, then the empty folder. Whoever is killed
// in between leaves what the next call finds.
namespace fsdp {

void mark_for_removal(const std::filesystem::path& folder);
// Whether it has the mark, or is what is left of a folder that had it.
bool is_being_removed(const std::filesystem::path& folder);

// Gives the folder another name, and returns that; nothing when it is gone.
std::optional<std::filesystem::path> renamed(const std::filesystem::path& folder,
                                             const std::filesystem::path& name);
// Gives the folder a name beside it that no run has, and returns that; nothing when it is gone.
std::optional<std::filesystem::path> take_away(const std::filesystem::path& folder);
// The same before the run's rows go; the name keeps the folder's.
std::optional<std::filesystem::path> take_away_before_rows(const std::filesystem::path& folder);
// The name that the folder had; nullopt if it was not taken away before the run's rows.
std::optional<std::filesystem::path> taken_before_rows(const std::filesystem::path& folder);
void remove_contents(const std::filesystem::path& folder);
// With all that is in it. Another process may be removing it as well.
void remove_folder(const std::filesystem::path& folder);

// Before a run begins: a marked folder of a run that has no attempt is what was left of an earlier
// one, and goes; of another run, whose rows are still there, only the mark.
void finish_removal(const Store& store, const std::filesystem::path& results, const RunRecord& run);

}  // namespace fsdp
