#pragma once

#include <filesystem>

// Which folders are those of runs that were planned for a results folder.
namespace fsdp {

// Whether `folder`, relative to the results, is runs/<one>/<one>.
bool is_run_folder(const std::filesystem::path& folder);

// Whether it is that also when links are followed. The folder runs may itself be a link.
bool is_own_run_folder(const std::filesystem::path& results, const std::filesystem::path& folder);

}  // namespace fsdp
