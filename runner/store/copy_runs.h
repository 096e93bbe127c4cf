#pragma once

#include <filesystem>

// Copies of the files that describe runs: records, events, texts, and logs of at most 1 MiB. The
// folders that are read may be hostile. Files that are in `to` already stay as they are. Throws
// ConfigError, with the place, if `from` has a link, a pipe or a file beyond all sizes under such a
// name, or cannot be read. Throws std::system_error if `to` cannot be written.
namespace fsdp {

// Copies one run's files.
void copy_run(const std::filesystem::path& from, const std::filesystem::path& to);

// Copies the files of a results folder and of those that were merged into it. Copies no file of a
// run that `to` has.
void copy_results(const std::filesystem::path& from, const std::filesystem::path& to);

// Copies the results that only a database of an earlier version holds, and the events of its runs.
// Throws std::runtime_error, with a remedy, if the database cannot be read or is not ours.
void copy_old_results(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace fsdp
