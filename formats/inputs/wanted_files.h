#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/hub/hub_listing.h"
#include "formats/inputs/hub_inputs.h"

namespace fsdp {

// The files of a repository's commit. A fetch reads them from the hub, a run from the cache.
struct HubFiles {
  // Lists the files in a folder; an empty name is the repository's root. Includes subfolders if
  // `is_recursive`. A folder that does not exist has no files.
  std::function<std::vector<ListedFile>(const std::string& folder, bool is_recursive)> list;
  // The contents of a file.
  std::function<std::string(const ListedFile& file)> read;
};

// The files of `input`. A fetch brings them, and a run requires all of them. Throws ConfigError if
// the repository lacks a necessary file.
std::vector<ListedFile> wanted_files(const HubInput& input, const HubFiles& files);

}  // namespace fsdp
